import math

import numpy as np
import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.linalg.random_matrix import (
    expected_extremes,
    expected_log10_condition,
    extreme_bounds,
    fuss_catalan_moment,
    fuss_catalan_quantiles,
    lyapunov_exponents,
)


def gaussian(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "shape", [(1, 6), (20, 20), (20, 21), (20, 22), (20, 30), (16, 400), (30, 10)]
)
def test_expected_extremes_against_sampled_matrices(shape):
    draws = 400
    values = torch.linalg.svdvals(gaussian(draws, *shape))
    expected = expected_extremes(*shape)
    for sampled, value in ((values[:, 0], expected.largest), (values[:, -1], expected.smallest)):
        # five standard errors of the mean (p < 1e-6), beside the few per cent of the formula
        slack = 5 * sampled.std().item() / math.sqrt(draws) + 0.03 * value
        assert sampled.mean().item() == pytest.approx(value, abs=slack)


@pytest.mark.parametrize("shape", [(20, 30), (16, 400), (30, 10)])
def test_bounds_hold_for_sampled_means(shape):
    values = torch.linalg.svdvals(gaussian(200, *shape))
    bounds = extreme_bounds(*shape)
    assert bounds.smallest <= values[:, -1].mean() <= values[:, 0].mean() <= bounds.largest
    assert bounds.smallest <= expected_extremes(*shape).smallest
    assert expected_extremes(*shape).largest <= bounds.largest


def test_extremes_scale_with_the_standard_deviation():
    assert expected_extremes(8, 12, std=3.0).largest == pytest.approx(
        3 * expected_extremes(8, 12).largest
    )
    assert extreme_bounds(8, 8).condition_number == math.inf


@pytest.mark.parametrize("factors", [1, 2, 4])
def test_quantiles_have_the_moments(factors):
    middle = (np.arange(200_000) + 0.5) / 200_000
    values = fuss_catalan_quantiles(middle, factors=factors)
    for order in (1, 2, 3):
        assert (values ** (2 * order)).mean() == pytest.approx(
            fuss_catalan_moment(order, factors=factors), rel=1e-3
        )


@pytest.mark.parametrize("power", [False, True])
def test_product_and_power_of_matrices_follow_the_law(power):
    n, factors = 300, 3
    matrices = [gaussian(n, n, seed=0 if power else i) / math.sqrt(n) for i in range(factors)]
    values = torch.linalg.svdvals(matrices[0] @ matrices[1] @ matrices[2]).numpy()
    levels = [0.25, 0.5, 0.75, 0.9]
    expected = fuss_catalan_quantiles(levels, factors=factors)
    np.testing.assert_allclose(np.quantile(values, levels), expected, rtol=0.08)


def test_fuss_catalan_edge_is_the_largest_quantile():
    for m in (1, 2, 3):
        assert fuss_catalan_quantiles([1.0], factors=m)[0] ** 2 == pytest.approx(
            (m + 1) ** (m + 1) / m**m
        )


def test_lyapunov_exponents_against_a_long_product():
    n, steps = 4, 4000
    matrices = gaussian(steps, n, n)
    basis, growth = torch.eye(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    for matrix in matrices:
        basis, triangle = torch.linalg.qr(matrix @ basis)
        growth += triangle.diagonal().abs().log()
    # the spread of one step is at most π/√8 ≈ 1.1; five standard errors
    np.testing.assert_allclose(
        growth / steps, lyapunov_exponents(n), atol=5 * 1.2 / math.sqrt(steps)
    )


def test_log_condition_of_a_product_grows_with_the_factors():
    n, factors, draws = 8, 12, 60
    logs = []
    for seed in range(draws):
        product = torch.linalg.multi_dot(list(gaussian(factors, n, n, seed=seed)))
        logs.append(math.log10(torch.linalg.cond(product).item()))
    expected = expected_log10_condition(n, factors=factors)
    assert np.mean(logs) == pytest.approx(expected, rel=0.15)


def test_bad_input_is_told():
    with pytest.raises(UsageError, match="`rows` must be positive, but 0"):
        expected_extremes(0, 3)
    with pytest.raises(UsageError, match=r"Probabilities lie in \[0, 1\]"):
        fuss_catalan_quantiles([1.2], factors=2)
    with pytest.raises(UsageError, match="`factors`"):
        fuss_catalan_moment(1, factors=0)
