"""Remedies of transformers: what they compute, that they can be undone, saved and printed."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import nets
from bathyscope.core import UsageError
from bathyscope.core.losses import token_cross_entropy
from bathyscope.remedies import (
    LearnFactors,
    NormalizeQueries,
    NormFirst,
    PenalizeLogZ,
    Recipe,
    ScaleBranches,
    apply_,
)
from bathyscope.rules.targeted.transformers import layer_scale, residual_branches, rezero
from tests import zoo

SMALL = {"vocabulary": 11, "context": 9, "width": 8, "heads": 2}
TOKENS = torch.arange(18).reshape(2, 9) % 11


def gpt(**options):
    return nets.build("gpt-2", seed=0, **(SMALL | options)).double()


def queries(model):
    return tuple(n for n, _ in model.named_modules() if n.endswith((".query", ".key")))


REMEDIES = {
    "queries": lambda m: NormalizeQueries(layers=queries(m), heads=2),
    "branches": lambda m: ScaleBranches(
        layers=("blocks.0.attention.branch", "blocks.1.mlp.branch"), factor=0.25
    ),
    "norms": lambda m: NormFirst(blocks=("blocks.0.attention", "blocks.1.mlp")),
    "layer_scale": lambda m: LearnFactors(layers=residual_branches(m), size=8, start=0.1),
    "rezero": lambda m: LearnFactors(layers=residual_branches(m)),
    "log_z": lambda m: PenalizeLogZ(layer="head"),
}


@pytest.mark.parametrize("kind", REMEDIES)
def test_undone_saved_and_printed(kind):
    model = gpt(norm="post")
    remedy = REMEDIES[kind](model)
    before = model(TOKENS)
    recipe = Recipe(steps=(remedy,))
    assert Recipe.parse(recipe.to_json()) == recipe
    optimizer = torch.optim.Adam(model.parameters())
    change = remedy.apply_(model, optimizer)
    treated, gradient = _output_and_gradient(model)
    if kind != "log_z":
        assert not torch.allclose(treated, before)
    change.undo()
    assert torch.equal(model(TOKENS), before)
    fresh = gpt(norm="post")
    apply_(fresh, recipe, optimizer=torch.optim.Adam(fresh.parameters()))
    assert torch.equal(_output_and_gradient(fresh)[0], treated)
    written = gpt(norm="post")
    scope = {"model": written, "optimizer": torch.optim.Adam(written.parameters())}
    exec(recipe.code(), scope)
    for ours, theirs in zip((treated, gradient), _output_and_gradient(written), strict=True):
        assert torch.equal(ours, theirs)


def test_normalized_queries_bound_the_scores():
    model = gpt()
    with torch.no_grad():
        for name in queries(model):
            model.get_submodule(name).weight.mul_(100)
    NormalizeQueries(layers=queries(model), heads=2).apply_(model)
    layer = model.blocks[0].attention.branch[1]
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    q, k = (layer._split(m(x)) for m in (layer.query, layer.key))
    assert torch.allclose(q.square().mean(-1), torch.ones(()).double(), atol=1e-6)
    assert float((q @ k.mT / 2).detach().abs().max()) <= 2 + 1e-9


def test_fused_layers_of_hugging_face():
    transformers = zoo.transformers()
    config = transformers.GPT2Config(vocab_size=11, n_positions=9, n_embd=8, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    layer = model.transformer.h[0].attn.c_attn
    x = torch.randn(2, 9, 8)
    plain = layer(x)
    NormalizeQueries(layers=("transformer.h.0.attn.c_attn",), heads=2, fused=True).apply_(model)
    q, k, v = layer(x).chunk(3, -1)
    assert torch.equal(v, plain.chunk(3, -1)[2])
    for part in (q, k):
        sizes = part.unflatten(-1, (2, 4)).square().mean(-1)
        assert torch.allclose(sizes, torch.ones(()), atol=1e-2)


def test_norm_first_is_the_pre_norm_network():
    post, pre = gpt(norm="post"), gpt(norm="pre")
    NormFirst(blocks=tuple(f"blocks.{i}.{p}" for i in (0, 1) for p in ("attention", "mlp"))).apply_(
        post
    )
    for ours, theirs in zip(post.blocks, pre.blocks, strict=True):
        for a, b in ((ours.attention, theirs.attention), (ours.mlp, theirs.mlp)):
            b.branch[1].load_state_dict(a.branch[0].state_dict())
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    assert torch.allclose(post.blocks(x), pre.blocks(x))


def test_norm_first_of_torch_layers():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    change = NormFirst(blocks=("layers.0", "layers.1")).apply_(model)
    first = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
    expected = nn.TransformerEncoder(first, 2, enable_nested_tensor=False)
    expected.load_state_dict(model.state_dict())
    x = torch.randn(2, 5, 8)
    assert torch.allclose(model(x), expected(x), atol=1e-6)
    change.undo()
    assert not any(block.norm_first for block in model.layers)


def test_z_loss_gradient_by_hand():
    model, plain = gpt(tied=False), gpt(tied=False)
    PenalizeLogZ(layer="head", weight=0.3).apply_(model)
    _, gradient = _output_and_gradient(model)
    logits = plain(TOKENS)
    log_z = torch.logsumexp(logits, -1)
    (token_cross_entropy(logits, TOKENS) + 0.3 * log_z.square().mean()).backward()
    expected = torch.cat([p.grad.flatten() for p in plain.parameters()])
    assert torch.allclose(gradient, expected)


def test_scaled_branches_are_deep_norm():
    """norm(αx + f(x)) is norm(x + f(x)/α), but for the norm's ε."""
    deep, post = gpt(norm="deep"), gpt(norm="post")
    post.load_state_dict(deep.state_dict())
    names = tuple(f"blocks.{i}.{p}.branch" for i in (0, 1) for p in ("attention", "mlp"))
    ScaleBranches(layers=names, factor=4**-0.25).apply_(post)
    assert torch.allclose(post(TOKENS), deep(TOKENS), atol=1e-4)


@pytest.mark.parametrize(("kind", "made"), [("layerscale", layer_scale), ("rezero", rezero)])
def test_learned_factors_train_as_those_of_the_catalog(kind, made):
    """Three steps of Adam: the same losses, and the same factors."""
    built, treated = gpt(branch_scale=kind), gpt()
    names = [n for n, _ in built.named_parameters() if not n.endswith(".factor")]
    assert names == [n for n, _ in treated.named_parameters()]
    treated.load_state_dict(
        {n: p for n, p in built.state_dict().items() if not n.endswith(".factor")}
    )
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (built, treated)]
    change = made(treated).apply_(treated, optimizers[1])
    for _ in range(3):
        losses = []
        for model, optimizer in zip((built, treated), optimizers, strict=True):
            optimizer.zero_grad()
            losses.append(token_cross_entropy(model(TOKENS), TOKENS))
            losses[-1].backward()
            optimizer.step()
        assert torch.allclose(*losses)
    theirs = [p for n, p in built.named_parameters() if n.endswith(".factor")]
    ours = [p for n, p in treated.named_parameters() if n.endswith(".branch_factor")]
    assert len(ours) == 4
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b)
    change.undo()
    assert [n for n, _ in treated.named_parameters()] == names
    assert len(optimizers[1].param_groups) == 1
    assert len(optimizers[1].state) == len(names)


def test_the_group_of_factors_has_the_first_rate_and_no_decay():
    model = gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, weight_decay=0.1)
    rezero(model).apply_(model, optimizer)
    assert [(g["lr"], g["weight_decay"]) for g in optimizer.param_groups] == [(0.5, 0.1), (0.5, 0)]


def test_branches_of_others_transformers_are_known():
    transformers = zoo.transformers()
    small = {"n_positions": 9, "n_embd": 8, "n_layer": 2, "n_head": 2}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=11, **small))
    assert residual_branches(model) == tuple(
        f"transformer.h.{i}.{part}" for i in (0, 1) for part in ("attn", "mlp")
    )
    model.eval()
    change = rezero(model).apply_(model, torch.optim.SGD(model.parameters(), lr=0.1))
    embedded = model.transformer.wte(TOKENS) + model.transformer.wpe(torch.arange(9))
    bare = model.lm_head(model.transformer.ln_f(embedded))
    assert torch.allclose(model(TOKENS).logits, bare, atol=1e-6)
    change.undo()
    assert residual_branches(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) == ()


def test_what_does_not_fit_is_one_sentence():
    with pytest.raises(UsageError, match="cannot be split into 3 heads"):
        NormalizeQueries(layers=("blocks.0.attention.branch.1.query",), heads=3).apply_(gpt())
    with pytest.raises(UsageError, match="no switch norm_first"):
        NormFirst(blocks=("head.0",)).apply_(gpt())
    model = gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rezero(model).apply_(model, optimizer)
    with pytest.raises(UsageError, match="one already"):
        rezero(model).apply_(model, optimizer)
    with pytest.raises(UsageError, match="has no module 'nothing'"):
        PenalizeLogZ(layer="nothing").apply_(gpt())


def _output_and_gradient(model):
    model.zero_grad()
    logits = model(TOKENS)
    F.cross_entropy(logits.flatten(0, 1), TOKENS.flatten()).backward()
    return logits.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])


def test_a_learned_factor_of_a_module_that_gives_out_a_mapping_is_one_sentence():
    class Mapped(nn.Linear):
        def forward(self, x):
            return {"output": super().forward(x)}

    model = nn.Sequential(Mapped(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    LearnFactors(layers=("0",)).apply_(model, optimizer)
    with pytest.raises(TypeError, match="gives out a tensor or a tuple"):
        model(torch.zeros(1, 2))


@pytest.mark.parametrize(
    "remedy",
    [
        LearnFactors(layers=("a", "b")),
        NormalizeQueries(layers=("a", "b"), heads=2),
        ScaleBranches(layers=("a", "b"), factor=0.5),
    ],
)
def test_what_a_hook_computes_at_every_pass_is_counted(remedy):
    assert remedy.num_added == 2
