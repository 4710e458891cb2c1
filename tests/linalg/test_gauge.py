import math

import pytest
import torch

from bathyscope.linalg.gauge import Gauge, refine


def test_a_step_is_shortened_so_that_no_mode_changes_its_sign():
    for bound in (0.5, 1.0, 2.5, 3.0, 10.0, 1e6):
        length = Gauge(0.1, bound).step_length
        assert 0 < length <= 0.5
        assert 1 + length * (1 - bound) >= 0


@pytest.mark.parametrize(
    ("spread", "bound", "warm", "near"),
    [(0.1, 1.5, True, True), (0.1, 3.0, True, False), (0.3, 1.5, False, False)],
)
def test_warm_and_near(spread, bound, warm, near):
    gauge = Gauge(spread, bound)
    assert (gauge.is_warm, gauge.is_near) == (warm, near)


def test_zero_and_non_finite():
    assert Gauge(0.5, 0.0).is_zero
    assert not Gauge(math.nan, 1.0).is_finite
    assert not Gauge(0.1, math.inf).is_finite


@pytest.mark.parametrize("scale", [0.3, 1.0, 1.6])
def test_the_refined_bound_lies_above_the_largest_value(scale):
    x = scale * torch.linalg.qr(torch.randn(3, 40, 20, dtype=torch.float64)).Q
    x[0] *= 1.1
    excess = x.mT @ x - torch.eye(20)
    spread = 0.5 * (excess.square().sum() / 60).sqrt().item()
    gauge = refine(Gauge(spread, math.inf), 1.0, x=x, excess=excess)
    assert gauge.bound == pytest.approx((1.1 * scale) ** 2, rel=1e-6)
