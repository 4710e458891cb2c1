import math

import numpy as np
import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.papers.singularity.random_matrix import (
    extreme_bounds,
    fuss_catalan_quantiles,
)


def gaussian(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(20, 30), (16, 400), (30, 10)])
def test_bounds_hold_for_sampled_means(shape):
    values = torch.linalg.svdvals(gaussian(200, *shape))
    bounds = extreme_bounds(*shape)
    assert bounds.smallest <= values[:, -1].mean() <= values[:, 0].mean() <= bounds.largest


def test_extremes_scale_with_the_standard_deviation():
    assert extreme_bounds(8, 12, std=3.0).largest == pytest.approx(
        3 * extreme_bounds(8, 12).largest
    )
    assert extreme_bounds(8, 8).condition_number == math.inf


@pytest.mark.parametrize("factors", [1, 2, 4])
def test_quantiles_have_the_moments(factors):
    middle = (np.arange(200_000) + 0.5) / 200_000
    values = fuss_catalan_quantiles(middle, factors=factors)
    for order in (1, 2, 3):
        # lim (1/n) E tr (YYᵀ)^k = C(mk + k, k) / (mk + 1) of a product of m matrices
        moment = math.comb(factors * order + order, order) / (factors * order + 1)
        assert (values ** (2 * order)).mean() == pytest.approx(moment, rel=1e-3)


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


def test_bad_input_is_told():
    with pytest.raises(UsageError, match="`rows` must be positive, but 0"):
        extreme_bounds(0, 3)
    with pytest.raises(UsageError, match=r"Probabilities lie in \[0, 1\]"):
        fuss_catalan_quantiles([1.2], factors=2)
    with pytest.raises(UsageError, match="`factors`"):
        fuss_catalan_quantiles([0.5], factors=0)
