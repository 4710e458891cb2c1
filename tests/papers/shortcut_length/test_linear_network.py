"""The closed form against the Hessian of the same network as a module."""

import pytest
import torch
from torch import nn

from bathyscope.curvature import hessian
from bathyscope.data import moments
from bathyscope.papers.shortcut_length.linear_network import linear_network_hessian


class LinearNetwork(nn.Module):
    """Π_r (Π_l W^{r,l} + I) x, as one parameter a layer."""

    def __init__(self, weights, shortcut):
        super().__init__()
        self.shortcut = shortcut
        self.units = nn.ModuleList(
            nn.ParameterList(nn.Parameter(w.clone()) for w in unit) for unit in weights
        )

    def forward(self, x):
        for unit in self.units:
            path = x
            for weight in unit:
                path = path @ weight.T
            x = path + x if self.shortcut else path
        return x


def half_mean_square(output, y):
    return 0.5 * (output - y).square().sum(dim=1).mean()


def problem(units, n, d=3, samples=40, *, runs=(), seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return 0.4 * draw(*runs, units, n, d, d), draw(samples, d), draw(samples, d)


@pytest.mark.parametrize("shortcut", [True, False])
@pytest.mark.parametrize(("units", "n"), [(1, 1), (1, 3), (4, 1), (3, 2), (2, 3)])
def test_equals_the_hessian_of_the_module(units, n, shortcut):
    weights, x, y = problem(units, n)
    model = LinearNetwork(weights, shortcut)
    truth = hessian(model, (x, y), loss=half_mean_square).dense()
    result = linear_network_hessian(weights, x, y, shortcut=shortcut)
    torch.testing.assert_close(result, truth, rtol=1e-10, atol=1e-10)


def test_pseudo_samples_give_the_same_matrix():
    weights, x, y = problem(3, 2, samples=500)
    whole = linear_network_hessian(weights, x, y)
    small = linear_network_hessian(weights, *moments(x, y))
    torch.testing.assert_close(small, whole, rtol=1e-10, atol=1e-10)


def test_a_module_on_pseudo_samples_gives_the_same_matrix():
    weights, x, y = problem(2, 2, samples=300)
    model = LinearNetwork(weights, True)
    whole = hessian(model, (x, y), loss=half_mean_square).dense()
    small = hessian(model, moments(x, y), loss=half_mean_square).dense()
    torch.testing.assert_close(small, whole, rtol=1e-10, atol=1e-10)


def test_runs_are_one_computation():
    weights, x, y = problem(2, 2, runs=(2, 3))
    together = linear_network_hessian(weights, x, y)
    assert together.shape == (2, 3, 36, 36)
    for i in range(2):
        for j in range(3):
            alone = linear_network_hessian(weights[i, j], x, y)
            torch.testing.assert_close(together[i, j], alone, rtol=1e-12, atol=1e-12)


def test_symmetric_and_zero_at_zero_for_long_shortcuts():
    weights, x, y = problem(3, 2)
    result = linear_network_hessian(weights, x, y)
    torch.testing.assert_close(result, result.T, rtol=1e-12, atol=1e-12)
    assert float(linear_network_hessian(torch.zeros(2, 3, 3, 3).double(), x, y).abs().max()) == 0
