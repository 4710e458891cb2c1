import math

import pytest
import torch
from torch import nn

from bathyscope.remedies import procrustes_
from tests.remedies.small_training import small_network, train


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


def test_a_gradient_of_zero_says_nothing_of_the_gain():
    torch.manual_seed(0)
    layer = nn.Linear(4, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.0)
    handle = procrustes_(optimizer, layer, every=1, gain="measured")
    before = handle.report().layers[0].target
    (0 * layer(torch.randn(8, 4))).sum().backward()
    optimizer.step()
    assert handle.report().layers[0].target == pytest.approx(before)
    layer(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
    assert handle.report().layers[0].target != pytest.approx(before)
