"""Weights of transformers' GPT-2 and BERT and of timm's ViT in our networks: the same outputs."""

import pytest
import torch

from bathyscope import nets
from tests import zoo


@pytest.mark.parametrize("positions", [3, 16])
def test_gpt2_with_copied_weights(positions):
    theirs = _theirs_gpt(num_blocks=3)
    ours = nets.build("gpt-3", vocabulary=50, context=16, width=32, heads=4)
    _copy_gpt(theirs, ours)
    assert _count(ours) == theirs.num_parameters()
    tokens = torch.randint(50, (4, positions))
    assert torch.allclose(ours(tokens), theirs(tokens).logits, atol=1e-5)


def test_gpt2_small_with_copied_weights():
    transformers = zoo.transformers()
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    ours = nets.build("gpt-12", vocabulary=50257, context=1024, width=768, heads=12)
    _copy_gpt(theirs, ours)
    assert _count(ours) == theirs.num_parameters() == 124_439_808
    tokens = torch.randint(50257, (1, 24))
    with torch.no_grad():
        assert torch.allclose(ours(tokens), theirs(tokens).logits, atol=1e-5)


def test_bert_with_copied_weights():
    transformers = zoo.transformers()
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=16,
    )
    theirs = transformers.BertForMaskedLM(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    ours = nets.build("bert-3", vocabulary=50, context=16, width=32, heads=4)
    _copy_bert(theirs, ours)
    assert _count(ours) == theirs.num_parameters() - 2 * 32  # our sequences have one segment
    tokens = torch.randint(50, (4, 11))
    with torch.no_grad():
        assert torch.allclose(ours(tokens), theirs(tokens).logits, atol=1e-5)


@pytest.mark.parametrize("qk_norm", [False, True])
def test_vit_with_copied_weights(qk_norm):
    timm = zoo.timm()
    torch.manual_seed(0)
    theirs = timm.models.VisionTransformer(
        img_size=32,
        patch_size=8,
        embed_dim=32,
        depth=3,
        num_heads=4,
        num_classes=7,
        qk_norm=qk_norm,
        init_values=0.1,
    ).eval()
    ours = nets.build(
        "vit-3",
        image_size=32,
        patch=8,
        width=32,
        heads=4,
        num_classes=7,
        qk_norm=qk_norm,
        branch_scale="layerscale",
    )
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    _copy_vit(theirs, ours)
    assert _count(ours) == _count(theirs)
    images = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(ours(images), theirs(images), atol=1e-5)


def test_vit_tiny_with_copied_weights():
    torch.manual_seed(0)
    theirs = zoo.timm().create_model("vit_tiny_patch16_224").eval()
    options = {"image_size": 224, "patch": 16, "width": 192, "heads": 3, "num_classes": 1000}
    ours = nets.build("vit-12", **options)
    _copy_vit(theirs, ours)
    assert _count(ours) == _count(theirs) == 5_717_416
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        assert torch.allclose(ours(images), theirs(images), atol=1e-5)


def _theirs_gpt(*, num_blocks):
    transformers = zoo.transformers()
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=32, n_layer=num_blocks, n_head=4
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return theirs


def _copy_gpt(theirs, ours):
    body = theirs.transformer
    with torch.no_grad():
        ours.stem.token.weight.copy_(body.wte.weight)
        ours.stem.position.weight.copy_(body.wpe.weight)
        for their, our in zip(body.h, ours.blocks, strict=True):
            norm, attention = our.attention.branch
            _copy(their.ln_1, norm)
            _copy_fused(their.attn.c_attn.weight.T, their.attn.c_attn.bias, attention)
            _copy_conv1d(their.attn.c_proj, attention.out)
            norm, (up, _, down) = our.mlp.branch
            _copy(their.ln_2, norm)
            _copy_conv1d(their.mlp.c_fc, up)
            _copy_conv1d(their.mlp.c_proj, down)
        _copy(body.ln_f, ours.head[0])


def _copy_bert(theirs, ours):
    tables, head = theirs.bert.embeddings, theirs.cls.predictions
    with torch.no_grad():
        ours.stem.token.weight.copy_(tables.word_embeddings.weight)
        segment = tables.token_type_embeddings.weight[0]
        ours.stem.position.weight.copy_(tables.position_embeddings.weight + segment)
        _copy(tables.LayerNorm, ours.stem.norm)
        for their, our in zip(theirs.bert.encoder.layer, ours.blocks, strict=True):
            (attention,) = our.attention.branch
            for name in ("query", "key", "value"):
                _copy(getattr(their.attention.self, name), getattr(attention, name))
            _copy(their.attention.output.dense, attention.out)
            _copy(their.attention.output.LayerNorm, our.attention.post)
            ((up, _, down),) = our.mlp.branch
            _copy(their.intermediate.dense, up)
            _copy(their.output.dense, down)
            _copy(their.output.LayerNorm, our.mlp.post)
        _copy(head.transform.dense, ours.head[0])
        _copy(head.transform.LayerNorm, ours.head[2])
        ours.head[3].bias.copy_(head.bias)


def _copy_vit(theirs, ours):
    with torch.no_grad():
        _copy(theirs.patch_embed.proj, ours.stem.projection)
        ours.stem.class_token.copy_(theirs.cls_token.flatten())
        ours.stem.position.weight.copy_(theirs.pos_embed[0])
        for their, our in zip(theirs.blocks, ours.blocks, strict=True):
            norm, attention = our.attention.branch[:2]
            _copy(their.norm1, norm)
            _copy_fused(their.attn.qkv.weight, their.attn.qkv.bias, attention)
            _copy(their.attn.proj, attention.out)
            if attention.query_norm is not None:
                _copy(their.attn.q_norm, attention.query_norm)
                _copy(their.attn.k_norm, attention.key_norm)
            norm, (up, _, down) = our.mlp.branch[:2]
            _copy(their.norm2, norm)
            _copy(their.mlp.fc1, up)
            _copy(their.mlp.fc2, down)
            if len(our.mlp.branch) == 3:
                our.attention.branch[2].factor.copy_(their.ls1.gamma)
                our.mlp.branch[2].factor.copy_(their.ls2.gamma)
        _copy(theirs.norm, ours.head[0])
        _copy(theirs.head, ours.head[2])


def _copy(theirs, ours):
    ours.load_state_dict(theirs.state_dict())


def _copy_conv1d(theirs, ours):
    ours.weight.copy_(theirs.weight.T)
    ours.bias.copy_(theirs.bias)


def _copy_fused(weight, bias, attention):
    for name, w, b in zip(("query", "key", "value"), weight.chunk(3), bias.chunk(3), strict=True):
        getattr(attention, name).weight.copy_(w)
        getattr(attention, name).bias.copy_(b)


def _count(network):
    return sum(p.numel() for p in network.parameters())
