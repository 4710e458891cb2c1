"""Agreement with known implementations: the weights are copied across and the outputs compared."""

from collections import Counter
from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bathyscope import nets
from tests.nets import by_hand
from tests.zoo import torchvision_models


@pytest.mark.parametrize(
    ("name", "factory"),
    [
        ("imagenet-resnet-50", "resnet50"),
        ("imagenet-resnet-101", "resnet101"),
        ("imagenet-resnext-50", "resnext50_32x4d"),
        pytest.param("imagenet-resnet-18", "resnet18", marks=pytest.mark.slow),
        pytest.param("imagenet-resnet-34", "resnet34", marks=pytest.mark.slow),
    ],
)
def test_torchvision(name, factory):
    theirs = getattr(torchvision_models(), factory)(weights=None)
    by_hand.randomize_norms_(theirs)
    ours = nets.skeleton(name).to_empty(device="cpu")
    by_hand.copy_in_order(theirs, ours)
    _agree(ours, theirs, size=64)


def _three(block, n, *, widths=(16, 32, 64), stem=16, stem_norm=True, head_norm=False):
    return by_hand.ThreeStages(
        block, n, stem=stem, widths=widths, stem_norm=stem_norm, head_norm=head_norm
    )


_BOTTLENECKS = {"widths": (64, 128, 256), "head_norm": True}


class _ResNeXtBlock(by_hand.PostGrouped):
    def __init__(self, a, b, s):
        super().__init__(a, b, s, inner=b // 2, groups=4)


@pytest.mark.parametrize(
    ("name", "options", "reference"),
    [
        ("resnet-20", {}, lambda: _three(by_hand.PostBasic, 3)),
        ("resnet-20", {"shortcut": "B"}, lambda: _three(partial(by_hand.PostBasic, skip="B"), 3)),
        ("plain-20", {}, lambda: _three(partial(by_hand.PostBasic, skip=None), 3)),
        ("resnext-20", {}, lambda: _three(_ResNeXtBlock, 2, widths=(64, 128, 256))),
        ("preresnet-20", {}, lambda: _three(by_hand.PreBottleneck, 2, **_BOTTLENECKS)),
        (
            "preresnet-20",
            {"shortcut_norm": False},
            lambda: _three(partial(by_hand.PreBottleneck, skip_norm=False), 2, **_BOTTLENECKS),
        ),
        (
            "preplain-20",
            {},
            lambda: _three(partial(by_hand.PreBottleneck, skip=False), 2, **_BOTTLENECKS),
        ),
        ("procresnet-22", {}, lambda: by_hand.ProcByHand(2)),
        (
            "wrn-16-2",
            {},
            lambda: _three(
                by_hand.WideBlock, 2, widths=(32, 64, 128), stem_norm=False, head_norm=True
            ),
        ),
    ],
)
def test_second_implementation(name, options, reference):
    ours = nets.build(name, seed=0, **options)
    by_hand.randomize_norms_(ours)
    theirs = reference()
    by_hand.copy_in_order(ours, theirs)
    _agree(ours, theirs, size=28)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("resnet-20", lambda: _three(by_hand.PostBasic, 3)),
        ("preresnet-20", lambda: _three(by_hand.PreBottleneck, 2, **_BOTTLENECKS)),
    ],
)
def test_a_step_needs_no_more_operators_than_the_plain_one(name, reference):
    """Nothing is copied or computed twice, whatever the blocks are put together from."""
    ours, theirs = _operators(nets.build(name)), _operators(reference())
    assert ours["total"] <= theirs["total"]
    for operator in ("aten.convolution", "aten.native_batch_norm", "aten.clone", "aten._to_copy"):
        assert ours[operator] == theirs[operator]


class _Counter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[str(func.overloadpacket)] += 1
        self.counts["total"] += 1
        return func(*args, **(kwargs or {}))


def _operators(network):
    with _Counter() as counter:
        network(torch.randn(2, 3, 8, 8)).sum().backward()
    return counter.counts


def _agree(ours, theirs, *, size):
    x = torch.randn(4, 3, size, size, generator=torch.Generator().manual_seed(1))
    for training in (False, True):
        ours.train(training)
        theirs.train(training)
        with torch.no_grad():
            expected = theirs(x)
            error = (ours(x) - expected).abs().max() / expected.abs().max()
        assert error <= 1e-5
