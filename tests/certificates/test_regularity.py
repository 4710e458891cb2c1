"""Losses with and without a kink, convex and not."""

import pytest
import torch
import torch.nn.functional as F

from bathyscope.certificates.losses import Differentiable, convex_loss
from bathyscope.certificates.regularity import regularity

KINKED = {
    "l1": F.l1_loss,
    "pinball": lambda o, y: torch.maximum(0.9 * (y - o), 0.1 * (o - y)).mean(),
    "hinge": lambda o, y: (1 - y.sign() * o).clamp(min=0).mean(),
    "with a square": lambda o, y: ((o - y).square() + 0.1 * (o - y).abs()).mean(),
    "away from the targets": lambda o, y: F.relu((o - y).abs() - 0.3).mean(),
}
SMOOTH = {
    "huber": F.huber_loss,
    "square": lambda o, y: (o - y).square().mean(),
    "power of 1.5": lambda o, y: (o - y).abs().pow(1.5).mean(),
    "fourth power": lambda o, y: (o - y).pow(4).mean(),
    "steep softplus": lambda o, y: F.softplus(100 * (o - y)).mean(),
    "linear": lambda o, y: (o - y).mean(),
}


def targets(n, *, scale=1.0, offset=0.0):
    g = torch.Generator().manual_seed(0)
    return offset + scale * torch.randn(n, 2, generator=g, dtype=torch.float64)


@pytest.mark.parametrize(("name", "n"), [*((name, 50) for name in KINKED), ("hinge", 1)])
def test_a_kink_is_found(name, n):
    result = regularity(Differentiable(KINKED[name], targets(n)), num_outputs=2)
    assert result.jump > 1e-3
    assert result.is_convex
    assert not result.is_differentiable


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize(("scale", "offset"), [(1, 0), (1e3, 1e6), (1e-3, 0), (0, 5)])
def test_smooth_convex_losses_pass(name, scale, offset):
    loss = Differentiable(SMOOTH[name], targets(40, scale=scale, offset=offset))
    assert regularity(loss, num_outputs=2).holds


@pytest.mark.parametrize("scale", [1, 1e3])
def test_a_fall_of_the_slope_is_found(scale):
    y = targets(40, scale=scale)
    result = regularity(
        Differentiable(lambda o, t: torch.tanh(((o - t) / scale).square()).mean(), y), num_outputs=2
    )
    assert result.violation > 0.01
    assert not result.holds


def test_losses_of_labels():
    labels = torch.arange(40) % 3
    assert regularity(Differentiable(F.cross_entropy, labels), num_outputs=3).holds
    margins = regularity(Differentiable(F.multi_margin_loss, labels), num_outputs=3)
    assert not margins.is_differentiable


def test_the_named_losses_need_no_samples():
    result = regularity(convex_loss("squared", targets(4), num_outputs=2), num_outputs=2)
    assert (result.violation, result.jump) == (0, 0)
