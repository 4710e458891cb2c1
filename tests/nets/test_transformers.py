"""Transformers of the catalog: what their options do, and what they refuse."""

import math

import pytest
import torch
import torch.nn.functional as F

from bathyscope import inits, nets
from bathyscope.core import UsageError, blocks_of
from bathyscope.nets.attention import rotate

SMALL = {"vocabulary": 11, "context": 9, "width": 8, "heads": 2}
OPTIONS = [
    *({"norm": location} for location in ("pre", "post", "deep", "sandwich", "none")),
    {"norm_kind": "rms"},
    {"feed_forward": "swiglu"},
    {"positions": "rotary"},
    {"positions": "none"},
    {"qk_norm": True},
    {"branch_scale": "layerscale"},
    {"branch_scale": "rezero"},
    {"tied": False},
    {"skip": False},
]


@pytest.mark.parametrize("family", ["gpt", "bert"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_builds_and_takes_a_step(family, options):
    network = nets.build(f"{family}-2", seed=0, **SMALL, **options)
    tokens = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(1))
    logits = network(tokens)
    assert logits.shape == (3, 7, 11)
    F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    unused = {"stem.position.weight"} if options.get("positions") == "none" else set()
    for name, parameter in network.named_parameters():
        assert name in unused or (parameter.grad is not None and parameter.grad.isfinite().all())


@pytest.mark.parametrize("scheme", inits.SCHEMES)
@pytest.mark.parametrize("family", ["gpt", "bert"])
def test_the_same_seed_gives_the_same_network(family, scheme):
    first, again, other = (
        nets.build(f"{family}-2", init=scheme, seed=seed, **SMALL).state_dict()
        for seed in (3, 3, 4)
    )
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert not torch.equal(first["stem.token.weight"], other["stem.token.weight"])


@pytest.mark.parametrize("positions", ["learned", "rotary", "none"])
def test_a_gpt_does_not_see_what_comes_later(positions):
    network = nets.build("gpt-3", seed=0, positions=positions, **SMALL).double()
    tokens = torch.randint(11, (1, 9))
    changed = tokens.clone()
    changed[0, 5:] = (tokens[0, 5:] + 1) % 11
    before, after = network(tokens), network(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_rotary_scores_depend_on_the_distance_alone():
    query, key = torch.randn(2, 8, dtype=torch.float64)
    rows = rotate(torch.stack([query, key])[None, :, None].expand(1, 2, 10, 8))[0]
    scores = rows[0] @ rows[1].T
    for offset in range(-9, 10):
        diagonal = scores.diagonal(offset)
        assert torch.allclose(diagonal, diagonal[:1].expand_as(diagonal))
    assert math.isclose(float(scores[0, 0]), float(query @ key))
    assert not torch.allclose(scores[0, 1], scores[0, 0])


def test_without_positions_tokens_are_a_set():
    network = nets.build("bert-2", seed=0, positions="none", **SMALL).double()
    tokens = torch.randint(11, (1, 9))
    order = torch.randperm(9)
    assert torch.allclose(network(tokens)[:, order], network(tokens[:, order]))


@pytest.mark.parametrize("norm", ["pre", "sandwich", "none"])
def test_rezero_starts_as_the_identity(norm):
    block = nets.build("gpt-2", seed=0, norm=norm, branch_scale="rezero", **SMALL).blocks[0]
    x = torch.randn(2, 5, 8)
    assert torch.equal(block(x), x)


def test_deep_norm_has_its_two_factors():
    network = nets.build("bert-8", seed=0, norm="deep", width=256, heads=4, vocabulary=11)
    alpha, beta = 16**0.25, 64**-0.25
    attention = network.blocks[3].attention
    x = torch.randn(2, 5, 256)
    expected = attention.post(alpha * x + attention.branch(x))
    assert torch.allclose(attention(x), expected)
    inner = attention.branch[0]
    for layer, gain in ((inner.query, 1.0), (inner.value, beta), (inner.out, beta)):
        assert float(layer.weight.detach().std() * 256**0.5) == pytest.approx(gain, rel=0.02)


def test_branches_start_smaller_in_deeper_networks():
    for depth in (2, 8):
        network = nets.build(f"gpt-{depth}", seed=0, width=256)
        std = network.blocks[0].mlp.branch[1][2].weight.detach().std() * (1024 / 0.4) ** 0.5
        assert float(std) == pytest.approx((2 * depth) ** -0.5, rel=0.02)
    post = nets.build("gpt-8", seed=0, width=256, norm="post")
    std = post.blocks[0].mlp.branch[0][2].weight.detach().std() * (1024 / 0.4) ** 0.5
    assert float(std) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("family", ["gpt", "bert"])
def test_blocks_are_declared_and_can_be_dropped(family):
    network = nets.build(f"{family}-3", seed=0, **SMALL)
    blocks = blocks_of(network, torch.zeros(1, 9, dtype=torch.long))
    declared = [b for b in blocks if b.name.startswith("blocks.")]
    assert [b.name for b in declared] == list(network.block_names())
    assert all(b.droppable and not b.changes_dimension for b in declared)


def test_a_tied_head_is_one_parameter_with_the_embedding():
    tied, free = (nets.build("gpt-1", seed=0, tied=tied, **SMALL) for tied in (True, False))
    assert tied.head[-1].weight is tied.stem.token.weight
    difference = sum(p.numel() for p in free.parameters()) - sum(
        p.numel() for p in tied.parameters()
    )
    assert difference == 11 * 8


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.full((1, 3), 11), "Tokens run from 11 to 11, but the vocabulary has 11"),
        (torch.full((1, 3), -1), "Tokens run from -1 to -1"),
        (torch.zeros(1, 10, dtype=torch.long), "10 tokens, but the network takes at most 9"),
        (torch.zeros(2, 0, dtype=torch.long), "The sequences are empty"),
    ],
)
def test_tokens_that_cannot_be_used(tokens, message):
    with pytest.raises(UsageError, match=message):
        nets.build("gpt-1", **SMALL)(tokens)


def test_sizes_that_do_not_fit():
    with pytest.raises(UsageError, match="multiple of the number of heads, but 10 and 4"):
        nets.build("gpt-1", width=10, heads=4)
    with pytest.raises(UsageError, match="turn pairs of features, but a head has 3"):
        nets.build("gpt-1", width=6, heads=2, positions="rotary")
    with pytest.raises(UsageError, match="multiple of the patch, but 30 and 4"):
        nets.build("vit-1", image_size=30)
    with pytest.raises(UsageError, match="takes 32 × 32"):
        nets.build("vit-1")(torch.zeros(1, 3, 28, 28))
    with pytest.raises(UsageError, match="norm of gpt-1 must be 'pre', 'post'"):
        nets.build("gpt-1", norm="before")
    with pytest.raises(UsageError, match="takes sequences of tokens"):
        nets.build_for("gpt-1", (3, 8, 8), num_classes=4)
