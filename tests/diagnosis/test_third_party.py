"""Networks of torchvision, timm and Hugging Face, where they are installed: blocks found, no false alarm."""

import pytest
import torch
import torch.nn.functional as F

from bathyscope.core import Severity, blocks_of
from bathyscope.diagnosis import diagnose
from tests.zoo import installed, timm, torchvision_models


def problems(model, batch, **options):
    result = diagnose(model, batch, **options)
    return [(f.code, f.blocks[:3]) for f in result.findings if f.severity is Severity.PROBLEM]


def images(size, number=8):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(number, 3, size, size, generator=generator)
    return x, torch.randint(10, (number,), generator=generator)


@pytest.mark.parametrize(
    ("name", "size", "first", "number"),
    [
        ("resnet18", 64, "layer1.0", 8),
        ("resnet50", 64, "layer1.0", 16),
        ("densenet121", 64, "features.denseblock1", 7),
        ("vit_b_16", 224, "encoder.layers.encoder_layer_0", 12),
        ("convnext_tiny", 64, "features.1.0", 21),
        ("mobilenet_v2", 64, "features.1", 17),
        ("vgg11_bn", 64, "features.0", 11),
    ],
)
def test_torchvision_networks_have_the_blocks_a_reader_would_name(name, size, first, number):
    model = getattr(torchvision_models(), name)(num_classes=10)
    result = blocks_of(model, images(size, 2)[0])
    assert (result[0].name, len(result)) == (first, number)


@pytest.mark.parametrize("name", ["resnet18", pytest.param("resnet50", marks=pytest.mark.slow)])
def test_torchvision_networks_get_a_clean_bill(name):
    torch.manual_seed(0)
    assert problems(getattr(torchvision_models(), name)(num_classes=10), images(64)) == []


@pytest.mark.parametrize(
    ("name", "size", "first", "number"),
    [
        ("resnet26", 64, "layer1.0", 8),
        ("resnetv2_50", 64, "stages.0.blocks.0", 16),
        ("vit_tiny_patch16_224", 224, "blocks.0", 12),
        ("convnext_atto", 64, "stages.0.blocks.0", 15),
        ("densenet121", 64, "features.denseblock1", 7),
        ("mixer_s32_224", 224, "blocks.0", 8),
    ],
)
def test_timm_networks_have_the_blocks_a_reader_would_name_and_a_clean_bill(
    name, size, first, number
):
    torch.manual_seed(0)
    model = timm().create_model(name, num_classes=10)
    result = blocks_of(model, images(size, 2)[0])
    assert (result[0].name, len(result)) == (first, number)
    assert problems(model, images(size)) == []


def test_a_hugging_face_transformer():
    transformers = installed("transformers")
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=64,
        vocab_size=50,
    )
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(config)
    batch = {"input_ids": torch.randint(50, (8, 12)), "labels": torch.randint(2, (8,))}
    result = blocks_of(model, batch)
    assert [b.name for b in result] == [f"bert.encoder.layer.{i}" for i in range(4)]
    assert problems(model, batch, loss=F.cross_entropy) == []


def test_a_hugging_face_language_model():
    transformers = installed("transformers")
    config = transformers.GPT2Config(n_embd=32, n_layer=5, n_head=4, vocab_size=60, n_positions=16)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(60, (8, 12))
    batch = {"input_ids": tokens, "labels": tokens}
    assert [b.name for b in blocks_of(model, batch)] == [f"transformer.h.{i}" for i in range(5)]
    assert problems(model, batch) == []


def sgd(model):
    """What torchvision trains with, at its linear scaling of the rate: 0.1 for a batch of 256."""
    return torch.optim.SGD(model.parameters(), lr=0.1 * 16 / 256, momentum=0.9, weight_decay=1e-4)


def adamw(rate):
    def optimizer(model):
        return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)

    return optimizer


@pytest.mark.parametrize(
    "name",
    [
        *("mobilenet_v3_small", "shufflenet_v2_x0_5", "regnet_y_400mf", "squeezenet1_1"),
        *("efficientnet_b0", "mnasnet0_5"),
        pytest.param("vgg11_bn", marks=pytest.mark.xfail),
    ],
)
def test_torchvision_networks_under_their_usual_optimizer_have_no_problem(name):
    torch.manual_seed(0)
    model = getattr(torchvision_models(), name)(num_classes=10)
    assert problems(model, images(64, 16), optimizer=sgd(model)) == []


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(("resnet10t", 64), ("mobilenetv3_small_050", 64), ("ghostnet_050", 64)),
        *(("edgenext_xx_small", 64), ("mobilevit_xxs", 64)),
        *(("regnetx_002", 64), ("test_vit", 160)),
    ],
)
def test_timm_networks_under_their_usual_optimizer_have_no_problem(name, size):
    torch.manual_seed(0)
    model = timm().create_model(name, num_classes=10)
    assert problems(model, images(size, 16), optimizer=adamw(1e-3)(model)) == []


SMALL = {"vocab_size": 60, "hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4}
WIDE = SMALL | {"intermediate_size": 96}


@pytest.mark.parametrize(
    ("config", "model", "settings"),
    [
        ("RobertaConfig", "RobertaForMaskedLM", WIDE),
        ("ElectraConfig", "ElectraForMaskedLM", WIDE | {"embedding_size": 48}),
        ("AlbertConfig", "AlbertForMaskedLM", WIDE | {"embedding_size": 48}),
        ("GPTNeoXConfig", "GPTNeoXForCausalLM", WIDE),
        ("MistralConfig", "MistralForCausalLM", WIDE | {"num_key_value_heads": 2}),
        ("BloomConfig", "BloomForCausalLM", {"vocab_size": 60, "hidden_size": 48, "n_layer": 4}),
        ("OPTConfig", "OPTForCausalLM", SMALL | {"ffn_dim": 96, "word_embed_proj_dim": 48}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hugging_face_networks_under_their_usual_optimizer_have_no_problem(config, model, settings):
    transformers = installed("transformers")
    torch.manual_seed(0)
    built = getattr(transformers, model)(getattr(transformers, config)(**settings))
    tokens = torch.randint(3, 60, (8, 24))
    batch = {"input_ids": tokens, "labels": tokens}
    assert problems(built, batch, optimizer=adamw(5e-5)(built)) == []
