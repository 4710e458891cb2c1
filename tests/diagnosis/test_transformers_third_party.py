"""Healthy transformers of transformers and timm: their attention is measured, and nothing is blamed."""

import pytest
import torch
import torch.nn.functional as F

from bathyscope import diagnose, forecast
from tests import zoo

SIZES = {"vocab_size": 60, "hidden_size": 48, "num_hidden_layers": 6, "num_attention_heads": 4}


def gpt2(transformers):
    config = transformers.GPT2Config(
        vocab_size=60,
        n_positions=32,
        n_embd=48,
        n_layer=6,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def bert(transformers):
    config = transformers.BertConfig(**SIZES, intermediate_size=192, max_position_embeddings=32)
    return transformers.BertForMaskedLM(config)


def llama(transformers):
    config = transformers.LlamaConfig(**SIZES, intermediate_size=128, num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config)


@pytest.mark.parametrize("build", [gpt2, bert, llama])
def test_hugging_face(build):
    torch.manual_seed(0)
    model = build(zoo.transformers())
    tokens = torch.randint(60, (8, 24))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    result = diagnose(model, {"input_ids": tokens, "labels": tokens}, optimizer=optimizer)
    assert [f.code for f in result.findings if f.severity == "problem"] == []
    assert sum(h == 4 for h in result.measurements["attention"]["heads"]) == 6


@pytest.mark.parametrize("build", [gpt2, bert])
def test_the_labels_of_a_model_that_computes_its_own_loss_are_seen(build):
    torch.manual_seed(0)
    model = build(zoo.transformers())
    starts = torch.randint(60, (32, 16, 1))
    sequences = (starts + 7 * torch.arange(24)) % 60
    batches = [{"input_ids": tokens, "labels": tokens} for tokens in sequences]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seen = forecast(model, batches, optimizer=optimizer)
    assert (seen.verdict, seen.inside) == ("trains", True)


@pytest.mark.parametrize("options", [{}, {"qk_norm": True}, {"init_values": 1e-5}], ids=str)
def test_timm(options):
    torch.manual_seed(0)
    model = zoo.timm().models.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=48, depth=6, num_heads=4, num_classes=10, **options
    )
    batch = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    result = diagnose(model, batch, loss=F.cross_entropy, optimizer=optimizer)
    assert [f.code for f in result.findings if f.severity == "problem"] == []
    assert sum(h == 4 for h in result.measurements["attention"]["heads"]) == 6
