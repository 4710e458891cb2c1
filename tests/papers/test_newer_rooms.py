"""The smaller rooms: their quantities against slow references, and their studies from end to end."""

import math

import pandas as pd
import pytest
import torch

from bathyscope import studies
from bathyscope.claims.draws import normal
from bathyscope.papers.completep.claims import movement
from bathyscope.papers.curse_of_depth.claims import branch_sizes
from bathyscope.papers.cutting_the_skip.claims import KINDS, attention_map, condition_number
from bathyscope.papers.hyper_connections.claims import doubly_stochastic, gain, mixed
from bathyscope.studies.depth_curve import DepthPreset, slope_over_depth

ROOMS = ("curse_of_depth", "hyper_connections", "completep", "cutting_the_skip")


@pytest.mark.parametrize("theme", ROOMS)
def test_a_study_runs_and_meets_what_is_shown(theme, tmp_path):
    result = studies.run(f"{theme}.figure_1", out=tmp_path)
    assert [c.statement for c in result.checks if c.passed is False] == []
    preset = studies.study_of(f"{theme}.figure_1").presets["quick"]
    assert isinstance(preset, DepthPreset)
    assert len(result.table) == len(preset.kinds) * len(preset.depths) * preset.seeds


def test_sinkhorn_gives_sums_of_one_and_keeps_what_is_doubly_stochastic():
    generator = torch.Generator().manual_seed(0)
    result = doubly_stochastic(normal(generator, 4, 4))
    ones = torch.ones(4, dtype=torch.float64)
    assert torch.allclose(result.sum(dim=0), ones)
    assert torch.allclose(result.sum(dim=1), ones, atol=1e-12)
    assert torch.allclose(doubly_stochastic(result.log()), result, atol=1e-12)
    assert gain(torch.tensor([[1.0, -2.0], [0.5, 0.5]])) == 3.0
    assert torch.equal(mixed("free", 0, seed=0), torch.eye(4, dtype=torch.float64))


def test_variance_without_scaling_is_the_number_of_branches_and_one():
    """Each branch has unit variance whatever x is, so that they add up."""
    variance = torch.stack([branch_sizes(16, scaled=False, seed=s)[0] for s in range(20)]).mean(0)
    wanted = 1 + torch.arange(1, 17, dtype=torch.float64)
    assert torch.allclose(variance, wanted, rtol=0.15)
    harmonic = 1 + (1 / torch.arange(1, 17, dtype=torch.float64)).cumsum(0)
    scaled = torch.stack([branch_sizes(16, scaled=True, seed=s)[0] for s in range(20)]).mean(0)
    assert torch.allclose(scaled, harmonic, rtol=0.15)


def test_a_step_that_is_ten_times_as_small_moves_ten_times_less(monkeypatch):
    far = movement(8, 1.0, seed=0)
    monkeypatch.setattr("bathyscope.papers.completep.claims.RATE", 1e-4)
    assert movement(8, 1.0, seed=0) == pytest.approx(far / 10, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_the_jacobian_is_the_slope_of_the_blocks(kind):
    x, blocks = attention_map(kind, 1, seed=0)
    jacobian = torch.func.jacrev(blocks)(x).reshape(x.numel(), x.numel())
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).double()
    slope = (blocks(x + 1e-6 * direction) - blocks(x - 1e-6 * direction)) / 2e-6
    assert torch.allclose(jacobian @ direction.flatten(), slope.flatten(), atol=1e-6)
    assert condition_number(kind, 1, seed=0) >= 1


def test_slope_over_depth_is_the_exponent():
    table = pd.DataFrame(
        {"kind": ["a"] * 3, "depth": [2, 4, 8], "seed": [0] * 3, "value": [4.0, 2.0, 1.0]}
    )
    assert slope_over_depth(table, "a") == pytest.approx(-1)
    assert slope_over_depth(table.assign(value=math.e), "a") == pytest.approx(0)
