"""The lean batch normalization against torch's, to the second derivative."""

import copy

import pytest
import torch
from torch import nn

from bathyscope.curvature.batchnorm import lean_batchnorm

LAYERS = {
    "1d": (lambda: nn.BatchNorm1d(3), (7, 3)),
    "1d sequence": (lambda: nn.BatchNorm1d(3), (4, 3, 5)),
    "2d": (lambda: nn.BatchNorm2d(2), (3, 2, 4, 5)),
    "3d": (lambda: nn.BatchNorm3d(2), (3, 2, 2, 3, 2)),
    "without weights": (lambda: nn.BatchNorm2d(2, affine=False), (3, 2, 4, 5)),
    "without statistics": (lambda: nn.BatchNorm1d(3, track_running_stats=False), (7, 3)),
}


def derivatives(layer, x):
    """Output, gradient of a curved function of it, and a product with that gradient's Jacobian."""
    x = x.clone().requires_grad_()
    inputs = [x, *layer.parameters()]
    output = layer(x)
    value = (torch.sin(output) * torch.linspace(-1, 2, output.numel()).reshape(x.shape)).sum()
    first = torch.autograd.grad(value, inputs, create_graph=True)
    torch.manual_seed(1)
    second = torch.autograd.grad(first, inputs, [torch.randn_like(f) for f in first])
    return [output, *first, *second]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_equals_torch(name, training):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    layer = make().double().train(training)
    with torch.no_grad():
        for tensor in (*layer.parameters(), *layer.buffers()):
            if tensor.is_floating_point():
                tensor.add_(torch.rand_like(tensor))
    x = 5 + 2 * torch.randn(shape, dtype=torch.float64)
    truth = derivatives(copy.deepcopy(layer), x)
    buffers = [b.clone() for b in layer.buffers()]
    with lean_batchnorm(layer):
        result = derivatives(layer, x)
    torch.testing.assert_close(result, truth, rtol=1e-9, atol=1e-10)
    assert all(torch.equal(a, b) for a, b in zip(buffers, layer.buffers(), strict=True))
    assert "forward" not in layer.__dict__


def test_subclasses_and_replaced_forwards_are_left_alone():
    class Own(nn.BatchNorm1d):
        def forward(self, x):
            return x * 7

    own, replaced = Own(2), nn.BatchNorm1d(2)
    replaced.forward = lambda x: x * 3
    with lean_batchnorm(nn.Sequential(own, replaced)):
        assert torch.equal(own(torch.ones(2, 2)), torch.full((2, 2), 7.0))
        assert torch.equal(replaced(torch.ones(2, 2)), torch.full((2, 2), 3.0))
    assert torch.equal(replaced(torch.ones(2, 2)), torch.full((2, 2), 3.0))


def test_errors_are_torchs():
    layer = nn.BatchNorm1d(3)
    with lean_batchnorm(layer), pytest.raises(ValueError, match="more than 1 value per channel"):
        layer(torch.ones(1, 3))
    with lean_batchnorm(layer), pytest.raises(ValueError, match="expected 2D or 3D"):
        layer(torch.ones(2, 3, 4, 5))
