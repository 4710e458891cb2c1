"""The outermost eigenvalues against dense eigenvalues, repeated ones included."""

import numpy as np
import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.linalg import extreme_eigenvalues


class Diagonal:
    """A diagonal operator: the algorithm never sees more than products, so it is as good as any."""

    def __init__(self, values, dtype=torch.float64):
        self.values = torch.as_tensor(values, dtype=dtype)
        self.shape, self.dtype, self.device = (len(values),) * 2, dtype, self.values.device
        self.products = 0

    def __matmul__(self, block):
        self.products += block.shape[1]
        return self.values[:, None] * block


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_ends_to_tolerance(dtype):
    values = np.concatenate([np.geomspace(0.01, 3, 400), -np.geomspace(1e-4, 0.05, 100)])
    operator = Diagonal(values, dtype)
    result = extreme_eigenvalues(operator, 5)
    rounding = 20 * torch.finfo(dtype).eps * 3
    top, bottom = np.sort(values)[::-1][:5], np.sort(values)[:5]
    np.testing.assert_allclose(result.largest.values, top, rtol=1e-5, atol=rounding)
    np.testing.assert_allclose(result.smallest.values, bottom, rtol=1e-5, atol=rounding)
    assert result.converged
    assert result.checked
    assert result.products + result.check_products == operator.products


def test_stated_errors_and_residuals_hold():
    values = np.sort(np.random.default_rng(0).normal(size=300))
    result = extreme_eigenvalues(Diagonal(values), 4, tolerance=1e-3)
    error = np.abs(result.largest.values.numpy() - values[::-1][:4])
    assert (error <= result.largest.errors.numpy() + 1e-12).all()
    for value, residual, u in zip(
        result.largest.values, result.largest.residuals, result.largest.vectors, strict=True
    ):
        true = (torch.as_tensor(values) * u - value * u).norm()
        assert abs(float(true) - float(residual)) < 1e-8


@pytest.mark.parametrize("seed", range(100))
def test_seven_fold_top_eigenvalue_is_returned_seven_times(seed):
    values = np.concatenate([np.full(7, 2.0), np.geomspace(1e-6, 1.5, 293)])
    result = extreme_eigenvalues(Diagonal(values), 8, ends="largest", generator=seeded(seed))
    np.testing.assert_allclose(result.largest.values, [2.0] * 7 + [1.5], rtol=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_copies_at_the_dense_end_of_a_spectrum(seed):
    values = np.concatenate([np.full(4, -0.02), np.linspace(-0.015, 0.5, 100), [3.0, 3.0]])
    result = extreme_eigenvalues(Diagonal(values), 3, generator=seeded(seed))
    np.testing.assert_allclose(result.smallest.values, [-0.02] * 3, rtol=1e-4)
    np.testing.assert_allclose(result.largest.values, [3.0, 3.0, 0.5], rtol=1e-4)


def test_without_the_check_a_repeated_eigenvalue_is_seen_once():
    values = np.concatenate([np.full(7, 2.0), 0.5 ** np.arange(20)])
    result = extreme_eigenvalues(Diagonal(values), 2, ends="largest", check_copies=False)
    assert not result.checked
    assert result.check_products == 0
    np.testing.assert_allclose(result.largest.values, [2.0, 1.0], rtol=1e-3)


def test_running_out_of_products_is_said():
    result = extreme_eigenvalues(Diagonal(np.linspace(0, 1, 2000)), 5, max_products=20)
    assert not result.converged
    assert not result.checked
    assert result.products + result.check_products <= 20
    assert (result.largest.residuals > 0).all()


def test_a_start_whose_product_is_known_costs_no_product_of_its_own():
    values = np.concatenate([np.linspace(-1, 1, 300), [3.0]])
    start = torch.randn(len(values), generator=seeded(1), dtype=torch.float64)
    operator = Diagonal(values)
    known = start, operator.values * start
    result = extreme_eigenvalues(operator, 1, start=known, max_products=9, check_copies=False)
    assert result.products == operator.products == 9
    # those nine and the known one span what ten products of a dense search span
    basis = [start]
    for _ in range(9):
        following = operator.values * basis[-1]
        basis.append(following / following.norm())
    q = torch.linalg.qr(torch.stack(basis, dim=1)).Q
    ritz = torch.linalg.eigvalsh(q.T @ (operator.values[:, None] * q))
    assert float(result.largest.values) == pytest.approx(float(ritz[-1]), rel=1e-8)
    assert float(result.smallest.values) == pytest.approx(float(ritz[0]), rel=1e-8)


def test_a_search_goes_on_until_the_fewest_products():
    values = [2.0, *[1.0] * 200, -1.0]
    few = extreme_eigenvalues(Diagonal(values), 1, tolerance=0.5, check_copies=False)
    more = extreme_eigenvalues(
        Diagonal(np.linspace(-1, 1, 300)), 1, tolerance=0.5, min_products=12, check_copies=False
    )
    assert few.products < 12 == more.products


def test_an_end_near_zero_is_found_relative_to_the_other():
    """A bulk that runs into zero: its end has no digits of its own, and takes all products."""
    values = np.geomspace(1e-14, 1, 400)
    to_itself = extreme_eigenvalues(Diagonal(values), 1, tolerance=1e-4, max_products=300)
    assert not to_itself.converged
    result = extreme_eigenvalues(Diagonal(values), 1, tolerance=1e-4, floor=0.1, max_products=300)
    assert result.converged
    assert result.checked
    assert result.products + result.check_products < 200
    assert abs(float(result.smallest.values)) <= 1e-5
    assert float(result.largest.values) == pytest.approx(1.0, rel=1e-4)


def test_all_of_a_small_matrix():
    values = [3.0, 1.0, 1.0, -2.0]
    result = extreme_eigenvalues(Diagonal(values), 4)
    np.testing.assert_allclose(result.largest.values, [3, 1, 1, -2], atol=1e-9)
    np.testing.assert_allclose(result.smallest.values, [-2, 1, 1, 3], atol=1e-9)


@pytest.mark.parametrize("dim", [1, 50])
def test_zero_matrix(dim):
    result = extreme_eigenvalues(Diagonal(np.zeros(dim)), 1)
    assert float(result.largest.values) == float(result.smallest.values) == 0.0


@pytest.mark.parametrize("k", [0, 6])
def test_k_outside_the_dimension(k):
    with pytest.raises(UsageError, match="from 1 to 5"):
        extreme_eigenvalues(Diagonal(np.ones(5)), k)
