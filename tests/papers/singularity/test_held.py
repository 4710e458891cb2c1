"""Weights that are kept where they began are still there when the run has ended."""

import pytest
import torch
from scipy.stats import ttest_1samp
from torch import nn

from bathyscope import nets
from bathyscope.core.calls import num_parameters
from bathyscope.linalg import conv_singular_values
from bathyscope.papers.singularity.claims.findings import (
    _OF_ONE_SIZE,
    finding_3,
    finding_3_corrected,
)
from bathyscope.papers.singularity.studies import similar_networks
from bathyscope.papers.singularity.studies.held import body_convolutions
from bathyscope.papers.singularity.studies.similar_networks import RIVALS, RivalPreset, tasks
from bathyscope.runs import load_checkpoint

PRESET = RivalPreset(depth=8, epochs=1, lr=0.05, batch_size=16, num_train=64, num_test=16)


def trained_kernels(name, folder):
    """The kernels of the body after a run of four steps."""
    task = next(task for task in tasks(PRESET) if task.rival == name)
    task.run(folder)
    weights = load_checkpoint(folder).weights
    return [weights[f"{layer}.weight"] for layer in body_convolutions(task.build())]


def distances(kernels):
    diracs = [nn.init.dirac_(torch.empty_like(kernel)) for kernel in kernels]
    return [float((k - d).norm() / d.norm()) for k, d in zip(kernels, diracs, strict=True)]


def test_a_kernel_that_is_kept_stays_near_dirac_and_one_left_free_does_not(tmp_path, monkeypatch):
    fraction = 0.002  # four steps lead no farther than 0.01
    monkeypatch.setattr(similar_networks, "DIRAC_FRACTION", fraction)
    kept = distances(trained_kernels("dirac_held", tmp_path / "kept"))
    free = distances(trained_kernels("dirac_start", tmp_path / "free"))
    assert max(kept) <= fraction + 1e-5
    assert max(free) > fraction


def spreads(kernels, gain):
    """How far the singular values of each kernel are from the one that it began with."""
    for kernel in kernels:
        filters, channels = kernel.shape[:2]
        target = gain * (filters / min(filters, channels)) ** 0.5
        yield float((conv_singular_values(kernel, 4).values / target - 1).abs().max())


@pytest.fixture(scope="module")
def free_spreads(tmp_path_factory):
    return list(spreads(trained_kernels("delta", tmp_path_factory.mktemp("free")), gain=1.0))


@pytest.mark.parametrize(("name", "gain"), [("delta_held", 1.0), ("bare_held", 2**0.5)])
def test_a_kernel_that_is_kept_orthogonal_has_one_singular_value(
    name, gain, tmp_path, free_spreads
):
    # taps outside 3 × 3 are cut off, so that the values do not meet exactly; how much they do depends
    # on the draw, which is another one on another processor
    kept = list(spreads(trained_kernels(name, tmp_path / "kept"), gain))
    assert all(k < f / 3 for k, f in zip(kept, free_spreads, strict=True)), (kept, free_spreads)


def test_only_networks_that_are_kept_are_put_back():
    assert {task.rival for task in tasks(PRESET) if task.callbacks(task.examples()[0])} == {
        name for name, rival in RIVALS.items() if rival.held
    }


def test_finding_3_compares_networks_of_one_size():
    sizes = [
        num_parameters(nets.skeleton(f"{family}-20", in_channels=1, **options))
        for family, options in _OF_ONE_SIZE.items()
    ]
    assert max(sizes) <= 1.01 * min(sizes)


@pytest.mark.parametrize(
    ("gains", "supported"),
    [
        ([0.03, 0.02, 0.04, 0.03, 0.02], True),
        ([0.05, -0.03, 0.04, 0.06, -0.02], False),  # 0.02 ± 0.05: no more than chance gives
        ([-0.03, -0.02, -0.04, -0.03, -0.02], False),
    ],
)
def test_finding_3_asks_for_a_gain_beyond_its_error(gains, supported):
    """By scipy's own test of pairs, on made-up gains."""
    numbers = {"condition": {"resnet": 30.0, "resnext": 15.0}, "gains": gains}
    assert all(relation.holds for relation in finding_3(numbers)) == supported
    assert all(relation.holds for relation in finding_3_corrected(numbers)) != supported
    interval = ttest_1samp(gains, 0.0).confidence_interval(0.95)
    assert (interval.low >= 0) == supported


def test_finding_3_needs_the_better_condition():
    numbers = {"condition": {"resnet": 15.0, "resnext": 30.0}, "gains": [0.03, 0.02, 0.04]}
    assert not all(relation.holds for relation in finding_3(numbers))
