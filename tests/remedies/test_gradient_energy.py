import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bathyscope.remedies import procrustes_


def small_network(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 1, stride=2, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 16, 10),
    ).to(dtype)


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return (
        torch.randn(16, 3, 8, 8, generator=generator),
        torch.randint(10, (16,), generator=generator),
    )


def train(model, optimizer, steps, *, start=0):
    for step in range(start, start + steps):
        x, y = batch(step)

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)


def test_measured_gain_preserves_the_norm_where_the_isotropic_one_does_not():
    """c ≪ d and gradients of low rank: the paper's failure case, equation 7 in place of d/c."""
    torch.manual_seed(0)
    layer = nn.Conv2d(2, 16, 3, padding=1, padding_mode="circular", bias=False)
    direction = torch.randn(1, 16, 1, 1)
    x = torch.randn(8, 2, 8, 8, requires_grad=True)

    def ratio():
        noise = torch.randn(8, 16, 8, 8)
        y = layer(x)
        y.retain_grad()
        optimizer.zero_grad()
        x.grad = None
        (y * (direction + 0.1 * noise)).sum().backward()
        return (x.grad.norm() / y.grad.norm()).item()

    optimizer = torch.optim.SGD(layer.parameters(), lr=0.0)
    handle = procrustes_(optimizer, layer, every=1, gain="isotropic")
    ratio()
    handle.project()
    isotropic = ratio()
    handle.remove()
    handle = procrustes_(optimizer, layer, every=1, gain="measured")
    for _ in range(20):
        ratio()
        optimizer.step()
    assert abs(isotropic - 1) > 0.15
    assert abs(ratio() - 1) < 0.05


def test_measured_gain_of_a_stem_whose_input_needs_no_gradient():
    model = small_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    handle = procrustes_(optimizer, {"stem": model[0], "head": model[7]}, every=1, gain="measured")
    train(model, optimizer, 3)
    stem, head = handle.report().layers
    assert 1 <= stem.target <= 4 * math.sqrt(8 / 3)
    assert stem.target != math.sqrt(8 / 3)
    assert head.target == pytest.approx(1, abs=0.2)  # 10 outputs of 256 inputs: no null space
