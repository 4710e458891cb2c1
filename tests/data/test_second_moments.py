import pytest
import torch
from torch.func import functional_call, grad, hessian

from bathyscope.core.errors import UsageError
from bathyscope.data import moments


class LinearResidual(torch.nn.Module):
    """y = A (I + V₂U₂) (I + V₁U₁) x, the obvious way."""

    def __init__(self, d_x, d_y, generator):
        super().__init__()

        def matrix(rows, columns):
            entries = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
            return torch.nn.Parameter(0.4 * entries)

        self.u1, self.v1 = matrix(3, d_x), matrix(d_x, 3)
        self.u2, self.v2 = matrix(3, d_x), matrix(d_x, 3)
        self.a = matrix(d_y, d_x)

    def forward(self, x):
        x = x + x @ self.u1.T @ self.v1.T
        x = x + x @ self.u2.T @ self.v2.T
        return x @ self.a.T


def _full_rank(n, generator):
    return torch.randn(n, 4, dtype=torch.float64, generator=generator) * torch.logspace(0, 2, 4)


def _rank_deficient(n, generator):
    x = _full_rank(n, generator)
    x[:, 1] = 3 * x[:, 0]
    x[:, 2] = 0
    return x


@pytest.mark.parametrize("draw", [_full_rank, _rank_deficient])
@pytest.mark.parametrize("n", [1, 3, 6, 7, 10_000])
@pytest.mark.parametrize("reduction", ["over samples", "over samples and outputs"])
def test_loss_gradient_and_hessian_of_a_linear_network_agree(draw, n, reduction):
    generator = torch.Generator().manual_seed(n)
    x = draw(n, generator)
    y = torch.randn(n, 2, dtype=torch.float64, generator=generator) + x[:, :2]
    network = LinearResidual(4, 2, generator)
    weights = {name: value.detach() for name, value in network.named_parameters()}

    def loss(weights, x, y):
        squares = (functional_call(network, weights, (x,)) - y).square()
        return squares.mean() if "outputs" in reduction else squares.sum(1).mean()

    pseudo = moments(x, y)
    assert pseudo[0].shape == (6, 4)
    assert pseudo[1].shape == (6, 2)
    for quantity in (loss, grad(loss), hessian(loss)):
        full = torch.cat([t.flatten() for t in _leaves(quantity(weights, x, y))])
        small = torch.cat([t.flatten() for t in _leaves(quantity(weights, *pseudo))])
        assert (full - small).abs().max() <= 1e-10 * full.abs().max()


def _leaves(tree):
    return torch.utils._pytree.tree_leaves(tree)


def test_the_moments_are_the_moments_over_chunks_of_rows():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(20_000, 7, dtype=torch.float64, generator=generator)
    px, py = moments(z[:, :5], z[:, 5:])
    p = torch.cat([px, py], 1)
    torch.testing.assert_close(p.T @ p / 7, z.T @ z / 20_000, rtol=1e-12, atol=1e-12)


def test_columns_of_very_different_size_keep_their_own_accuracy():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 2, dtype=torch.float64, generator=generator) * torch.tensor([1e9, 1e-9])
    px, _ = moments(x, x[:, :1])
    torch.testing.assert_close(
        px[:, 1].square().mean(), x[:, 1].square().mean(), rtol=1e-12, atol=0
    )


def test_dtype_follows_the_input():
    px, py = moments(torch.ones(5, 2), torch.ones(5, 1, dtype=torch.float64))
    assert px.dtype == torch.float32
    assert py.dtype == torch.float64


@pytest.mark.parametrize("x", [torch.zeros(0, 2), torch.full((3, 2), torch.nan)])
def test_no_samples_and_nan_are_refused(x):
    with pytest.raises(UsageError, match="finite"):
        moments(x, torch.zeros(len(x), 1))
