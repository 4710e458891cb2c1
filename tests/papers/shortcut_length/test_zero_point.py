"""The closed forms at zero against the Hessian of the network itself."""

import pytest
import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.curvature import hessian
from bathyscope.papers.shortcut_length.linear_network import linear_network_hessian
from bathyscope.papers.shortcut_length.zero_point import Activation, zero_point


class ShortcutNetwork(nn.Module):
    """Units σ_post(W^n σ_mid(… W¹ σ_pre(x))) + x with all weights zero."""

    def __init__(self, units, n, d, pre, mid, post):
        super().__init__()
        self.pre, self.mid, self.post = pre, mid, post
        self.units = nn.ModuleList(
            nn.ParameterList(nn.Parameter(torch.zeros(d, d, dtype=torch.float64)) for _ in range(n))
            for _ in range(units)
        )

    def forward(self, x):
        for unit in self.units:
            path = self.pre(x)
            for l, weight in enumerate(unit):
                path = (self.mid(path) if l else path) @ weight.T
            x = self.post(path) + x
        return x


def half_mean_square(output, y):
    return 0.5 * (output - y).square().sum(dim=1).mean()


def data(d=3, samples=20):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(samples, d, generator=generator, dtype=torch.float64)
    return x, torch.randn(samples, d, generator=generator, dtype=torch.float64)


def identity(x):
    return x


def curved(x):
    return torch.sin(2 * x) + x**2


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("pre", "mid", "post"),
    [
        (identity, identity, identity),
        (torch.tanh, identity, identity),
        (identity, torch.tanh, identity),
        (identity, identity, curved),
        (torch.sigmoid, curved, torch.sin),
    ],
)
def test_equals_the_hessian_of_the_network(n, pre, mid, post):
    x, y = data()
    model = ShortcutNetwork(3, n, 3, pre, mid, post)
    truth = hessian(model, (x, y), loss=half_mean_square).dense()
    result = zero_point(
        x,
        y,
        n=n,
        pre=Activation(function=pre),
        mid=Activation(function=mid),
        post=Activation(function=post),
    )
    torch.testing.assert_close(result.dense(3), truth, rtol=1e-9, atol=1e-9)
    values = torch.linalg.eigvalsh(truth)
    torch.testing.assert_close(result.eigenvalues(3), values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_equals_the_linear_closed_form(n):
    x, y = data()
    truth = linear_network_hessian(torch.zeros(4, n, 3, 3, dtype=torch.float64), x, y)
    torch.testing.assert_close(zero_point(x, y, n=n).dense(4), truth, rtol=1e-12, atol=1e-12)


def test_condition_number_for_n_2_does_not_depend_on_depth_and_grows_for_n_1():
    x, y = data()

    def condition(n, units):
        sizes = zero_point(x, y, n=n).eigenvalues(units).abs()
        return float(sizes.max() / sizes.min())

    assert condition(2, 2) == pytest.approx(condition(2, 30), rel=1e-12)
    assert condition(1, 30) > 3 * condition(1, 2)


def test_relu_needs_a_slope():
    x, y = data()
    with pytest.raises(UsageError, match="no derivative at zero"):
        zero_point(x, y, n=2, mid=Activation(function=torch.relu))
    half = zero_point(x, y, n=2, mid=Activation(function=torch.relu, slope=0.5))
    whole = zero_point(x, y, n=2)
    torch.testing.assert_close(half.eigenvalues(2), 0.5 * whole.eigenvalues(2))


def test_activation_that_does_not_vanish():
    x, y = data()
    with pytest.raises(UsageError, match="assumption 3"):
        zero_point(x, y, n=2, mid=Activation(function=torch.sigmoid))


def test_length_zero():
    with pytest.raises(UsageError, match="at least 1"):
        zero_point(*data(), n=0)
