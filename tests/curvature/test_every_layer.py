"""The Hessian of every parametrized layer type and parametrization of torch, against differences."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from bathyscope.core.errors import BathyscopeError
from bathyscope.curvature import gauss_newton, hessian
from bathyscope.curvature import terms as terms_module
from benchmarks.fuzzing.layers import LAYERS, PARAMETRIZATIONS, network, parametrized_types

# torch has no second derivative for these, or their "gradient" is the gradient of nothing
REFUSED = {
    "EmbeddingBag",
    "EmbeddingBag of sums",
    "EmbeddingBag of maxima",
    "Embedding by frequency",
}


def central_differences(model, batch, loss, step=1e-5):
    """∂g/∂θ by central differences of the gradient, a column for each parameter."""
    for module in model.modules():
        module.training = isinstance(module, _NormBase)
    free = [p for p in model.parameters() if p.requires_grad]

    def gradient():
        result = torch.autograd.grad(loss(model(*batch[0]), batch[1]), free, allow_unused=True)
        pairs = zip(free, result, strict=True)
        return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for p, g in pairs])

    columns = []
    for parameter in free:
        for flat in parameter.data.view(-1).unbind():
            value = float(flat)
            above = (flat.fill_(value + step), gradient())[1]
            below = (flat.fill_(value - step), gradient())[1]
            flat.fill_(value)
            columns.append((above - below) / (2 * step))
    return torch.stack(columns, dim=1)


def test_no_layer_type_is_left_out():
    assert parametrized_types() <= set(LAYERS)


@pytest.mark.parametrize("name", [*LAYERS, *PARAMETRIZATIONS])
def test_hessian_agrees_with_differences_of_the_gradient(name):
    model, batch = network(name)
    if name in REFUSED:
        with pytest.raises(BathyscopeError, match="second derivative"):
            hessian(model, batch, loss=F.mse_loss).dense()
        return
    result = hessian(model, batch, loss=F.mse_loss).dense()
    expected = central_differences(model, batch, F.mse_loss)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("samples", [1, 2, 3, 8])
def test_group_norm_is_right_in_blocks_of_vectors(groups, samples):
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3), nn.GroupNorm(groups, 4), nn.Tanh(), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(16, 3)).double()
    batch = (torch.randn(samples, 1, 4, 4, dtype=torch.float64), torch.arange(samples) % 3)
    H = hessian(model, batch)
    block = torch.randn(H.shape[0], 20, dtype=torch.float64)
    one_by_one = torch.stack([H @ v for v in block.T], dim=1)
    torch.testing.assert_close(H @ block, one_by_one, rtol=1e-9, atol=1e-12)


class Wrong(torch.autograd.Function):
    """x³ whose second derivative is three times too large on every other entry of its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        return WrongSlope.apply(gradient, *ctx.saved_tensors)


class WrongSlope(torch.autograd.Function):
    """3x²g with a derivative in x that mixes up its neighbors."""

    @staticmethod
    def forward(ctx, gradient, x):
        ctx.save_for_backward(gradient, x)
        return 3 * x**2 * gradient

    @staticmethod
    def backward(ctx, cotangent):
        gradient, x = ctx.saved_tensors
        return 3 * x**2 * cotangent, (6 * x * gradient * cotangent).roll(1, -1)


class UsesWrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(Wrong.apply(self.first(x)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_wrong_second_derivative_is_refused(dtype):
    torch.manual_seed(0)
    batch = (torch.randn(8, 4, dtype=dtype), torch.arange(8) % 3)
    with pytest.raises(BathyscopeError, match="wrong: vᵀHw and wᵀHv differ"):
        hessian(UsesWrong().to(dtype), batch).extremes(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("depth", [3, 60])
def test_rounding_is_not_taken_for_a_wrong_derivative(dtype, depth):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()) for _ in range(depth)]
    model = nn.Sequential(*layers, nn.Linear(8, 3)).to(dtype)
    batch = (torch.randn(16, 8, dtype=dtype), torch.arange(16) % 3)
    assert (hessian(model, batch) @ torch.ones(hessian(model, batch).shape[0])).isfinite().all()


def test_a_block_that_torch_multiplies_wrongly_is_multiplied_one_by_one(monkeypatch):
    torch.manual_seed(0)
    model, batch = network("Linear")
    H = hessian(model, batch, loss=F.mse_loss)
    right = H.dense()
    true_grad = torch.autograd.grad

    def wrong(*args, is_grads_batched=False, **options):
        result = true_grad(*args, is_grads_batched=is_grads_batched, **options)
        if not is_grads_batched:
            return result
        return [None if f is None else torch.cat([f[:1] * 1.01, f[1:]]) for f in result]

    monkeypatch.setattr(terms_module.torch.autograd, "grad", wrong)
    assert torch.equal(H.dense(), right) or (H.dense() - right).abs().max() < 1e-12


def test_parameters_without_entries_and_without_axes_have_their_place():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.empty = nn.Parameter(torch.zeros(0, 4))
            self.gain = nn.Parameter(torch.tensor(2.0))
            self.layer = nn.Linear(4, 1)

        def forward(self, x):
            return self.gain * self.layer(x) + self.empty.sum()

    model = Odd().double()
    batch = ((torch.randn(5, 4, dtype=torch.float64),), torch.zeros(5, 1, dtype=torch.float64))
    result = hessian(model, batch, loss=F.mse_loss).dense()
    expected = central_differences(model, batch, F.mse_loss)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)
    assert gauss_newton(model, batch, loss=F.mse_loss).dense().shape == (6, 6)
