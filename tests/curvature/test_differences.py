"""Functions of one's own in the graph: curvature that torch leaves out is refused, the rest is right."""

import pytest
import torch
from torch import nn

from bathyscope.core.errors import BathyscopeError
from bathyscope.curvature import gauss_newton, hessian


class KeptAsAttribute(torch.autograd.Function):
    """tanh whose slope is computed in forward and kept as an attribute: a constant to torch."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.slope = 1 - y**2
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.slope


class KeptAsIntermediate(torch.autograd.Function):
    """The same in `save_for_backward`, which knows inputs and outputs alone."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(1 - y**2)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (slope,) = ctx.saved_tensors
        return gradient * slope


class Right(torch.autograd.Function):
    """tanh that saves its output."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * (1 - y**2)


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function.apply(x)


def network(middle, dtype, *, kinks=False):
    torch.manual_seed(0)
    first = [nn.Linear(5, 8), nn.ReLU()] if kinks else [nn.Linear(5, 8)]
    model = nn.Sequential(*first, nn.Linear(8, 8), middle, nn.Linear(8, 3)).to(dtype)
    return model, (torch.randn(16, 5, dtype=dtype), torch.arange(16) % 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("function", [KeptAsAttribute, KeptAsIntermediate])
def test_a_backward_that_keeps_a_constant_is_refused(function, dtype):
    model, batch = network(Calls(function), dtype)
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(BathyscopeError, match="not the slope of the gradient"):
        hessian(model, batch).dense()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize("kinks", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_function_that_can_be_differentiated_twice_is_taken(dtype, kinks):
    mine, batch = network(Calls(Right), dtype, kinks=kinks)
    torchs, _ = network(nn.Tanh(), dtype, kinks=kinks)
    torch.testing.assert_close(hessian(mine, batch).dense(), hessian(torchs, batch).dense())


def test_gauss_newton_needs_no_second_derivative_of_the_model():
    mine, batch = network(Calls(KeptAsAttribute), torch.float64)
    torchs, _ = network(nn.Tanh(), torch.float64)
    ours, theirs = (gauss_newton(model, batch).dense() for model in (mine, torchs))
    torch.testing.assert_close(ours, theirs)
