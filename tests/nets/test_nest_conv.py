"""Convolutional forms: exact counts, linear outputs, conversions."""

import pytest
import torch

from bathyscope import nets
from bathyscope.core import UsageError, blocks_of
from bathyscope.nets.nest import prediction_of
from bathyscope.nets.samples import Images

FORMS = ("resnest", "bnresnest", "aresnest", "densenest")
SMALL = [f"{form}-{size}" for form in FORMS for size in ("8", "wrn-10-1")]


def count(name, num_classes=10):
    return sum(p.numel() for p in nets.skeleton(name, num_classes=num_classes).parameters())


@pytest.mark.parametrize(
    ("size", "standard", "ten", "hundred"),
    [
        ("wrn-16-8", "nests-wrn-16-8", 8_744_164, 8_906_344),
        ("wrn-40-4", "nests-wrn-40-4", 8_411_420, 8_655_320),
        ("110", "prebasic-110", 1_713_620, 1_900_280),
        ("20", "prebasic-20", 238_130, 269_540),
    ],
)
def test_counts(size, standard, ten, hundred):
    assert count(f"aresnest-{size}") == ten
    assert count(f"aresnest-{size}", 100) == hundred
    assert count(f"bnresnest-{size}") == count(standard)
    last = nets.skeleton(f"resnest-{size}").output.in_features
    assert count(f"resnest-{size}") == count(standard) - 2 * last
    growth = nets.skeleton(f"densenest-{size}").feature_sizes[-1]
    bigger = nets.families()["densenest-wrn" if "wrn" in size else "densenest"].builder
    assert count(f"densenest-{size}") <= count(standard)
    numbers = {"wrn-16-8": (2, 8), "wrn-40-4": (6, 4), "110": (18,), "20": (3,)}[size]
    with torch.device("meta"):
        more = bigger(*numbers, samples=Images(), growth=growth + 1)
    assert sum(p.numel() for p in more.parameters()) > count(standard)


@pytest.mark.parametrize("name", SMALL)
def test_builds_steps_and_is_deterministic(name):
    outputs = []
    for _ in range(2):
        network = nets.build(name, num_classes=4, in_channels=1, seed=0)
        x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        network(x).square().sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in network.parameters())
        outputs.append(network(x))
    assert torch.equal(*outputs)
    assert [b.name for b in blocks_of(network, x)] == network.block_names()


def test_outputs_are_linear_in_pooled_features():
    torch.manual_seed(0)
    x = torch.randn(3, 3, 9, 9, dtype=torch.float64)
    augmented = nets.build("aresnest-8", seed=0).double().eval()
    weights = [head.weight for head in augmented.heads]
    bias = sum(head.bias for head in augmented.heads)
    weights[0] = torch.cat([weights[0], bias[:, None]], dim=1)
    torch.testing.assert_close(augmented(x), prediction_of(augmented.features(x), weights))
    dense = nets.build("densenest-8", seed=0).double().eval()
    W = torch.cat([dense.output.weight[:, :3], dense.output.bias[:, None]], dim=1)
    rest = dense.output.weight[:, 3:].split(dense.feature_sizes[1:], dim=1)
    torch.testing.assert_close(dense(x), prediction_of(dense.features(x), [W, *rest]))


@pytest.mark.parametrize("name", ["prebasic-8", "prebasic-14"])
def test_a_standard_network_becomes_its_resnest(name):
    torch.manual_seed(0)
    standard = nets.build(name, seed=0).double()
    x = torch.randn(5, 3, 8, 8, dtype=torch.float64)
    standard(x)  # fills the running statistics
    standard.eval()
    norm, _, pool, flatten, linear = standard.head
    before = standard.blocks(standard.stem(x))
    plain = nets.standard_to_resnest(standard)
    kept = nets.standard_to_resnest(standard, final_norm="keep")
    assert (plain(x) - linear(flatten(pool(before)))).abs().max() < 1e-10
    assert (kept(x) - linear(flatten(pool(norm(before))))).abs().max() < 1e-10
    size = name.removeprefix("prebasic-")
    assert {k: v.shape for k, v in nets.build(f"resnest-{size}").state_dict().items()} == {
        k: v.shape for k, v in plain.state_dict().items()
    }


def test_a_wide_network_keeps_its_weights():
    standard = nets.build("nests-wrn-10-2", seed=0)
    plain = nets.standard_to_resnest(standard)
    assert sum(p.numel() for p in plain.parameters()) == count("resnest-wrn-10-2")
    assert torch.equal(plain.blocks[0].mix.weight, standard.blocks[0].branch[-1].weight)
    assert plain(torch.randn(2, 3, 8, 8)).shape == (2, 10)


def test_other_networks_are_refused():
    with pytest.raises(UsageError, match="stem"):
        nets.standard_to_resnest(nets.build("preresnet-11"))
    with pytest.raises(UsageError, match=r"stem|head"):
        nets.standard_to_resnest(nets.build("resnet-8"))


@pytest.mark.parametrize("form", ["resnest-8", "bnresnest-8"])
def test_the_augmented_form_has_the_same_features(form):
    torch.manual_seed(0)
    network = nets.build(form, seed=0).double()
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    network(x)
    network.eval()
    twin = nets.residual_to_augmented(network)
    for ours, theirs in zip(twin.features(x), network.features(x), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    assert {k: v.shape for k, v in nets.build("aresnest-8").state_dict().items()} == {
        k: v.shape for k, v in twin.state_dict().items()
    }


def test_proposition_4_on_images():
    torch.manual_seed(0)
    dense = nets.build("densenest-8", seed=0).double()
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    dense(x)
    dense.eval()
    wide = nets.dense_to_residual(dense)
    assert (wide(x) - dense(x)).abs().max() < 1e-10


def test_a_network_with_normalized_shortcuts_is_refused():
    with pytest.raises(UsageError, match=r"shortcut of block .* is not linear"):
        nets.standard_to_resnest(nets.build("prebasic-14", shortcut="B", shortcut_norm=True))
