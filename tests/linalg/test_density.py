"""Stochastic Lanczos quadrature against known spectra."""

import numpy as np
import pytest
import torch
from scipy.stats import wasserstein_distance

from bathyscope.core.errors import UsageError
from bathyscope.linalg import spectral_density


def a_spectrum(dim=1200, seed=0):
    """A few outliers over a bulk that crowds around zero, as a trained network's Hessian has."""
    rng = np.random.default_rng(seed)
    bulk = np.exp(rng.normal(-7, 2, dim - 12)) * rng.choice([1, -0.3], dim - 12, p=[0.7, 0.3])
    return np.concatenate([np.minimum(bulk, 0.3), np.geomspace(0.4, 3, 12)])


def operator_of(values):
    return torch.diag(torch.as_tensor(values, dtype=torch.float64))


def distance(result, values):
    points = torch.cat([result.atoms, result.nodes.reshape(-1)])
    fraction = torch.full_like(result.atoms, 1 / result.dim)
    mass = torch.cat([fraction, result.weights.reshape(-1) / result.num_probes])
    span = values.max() - values.min()
    return wasserstein_distance(points.numpy(), values, mass.numpy()) / span


def test_mass_is_one():
    result = spectral_density(operator_of(a_spectrum()), probes=3, steps=20)
    total = len(result.atoms) / result.dim + result.weights.sum(dim=1)
    np.testing.assert_allclose(total, 1.0, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_close_to_the_true_spectrum_with_400_products(seed):
    values = a_spectrum(seed=seed)
    result = spectral_density(operator_of(values), generator=torch.Generator().manual_seed(seed))
    assert result.products == 400
    assert distance(result, values) <= 5e-4


def test_bounds_hold_the_true_fraction():
    """Each interval is meant to miss in at most 5 % of cases; 40 of 45 fails once in 100 000."""
    values = a_spectrum()
    thresholds = [-1e-2, -1e-3, -1e-4, 0.0, 1e-4, 1e-3, 1e-2, 0.1, 0.35]
    held = 0
    for seed in range(5):
        result = spectral_density(
            operator_of(values), probes=6, generator=torch.Generator().manual_seed(seed)
        )
        for t in thresholds:
            fraction = result.fraction_below(t)
            held += fraction.lower <= (values < t).mean() <= fraction.upper
    assert held >= 40


def test_fraction_within_a_radius():
    values = a_spectrum()
    result = spectral_density(operator_of(values), probes=8, steps=60)
    for radius in (0.0, 1e-3, 0.05, 5.0):
        fraction = result.fraction_within(radius)
        assert fraction.lower - 1e-12 <= (np.abs(values) <= radius).mean() <= fraction.upper + 1e-12


def test_trace_comes_with_it():
    values = a_spectrum()
    result = spectral_density(operator_of(values), probes=16)
    assert abs(result.trace.value - values.sum()) <= 4 * result.trace_standard_error
    assert result.trace.lower < result.trace.value < result.trace.upper


def test_whole_space_is_exact():
    values = np.array([-2.0, 0.5, 0.5, 3.0])
    result = spectral_density(operator_of(values), probes=2, steps=10, outlier_steps=10)
    assert abs(result.trace.value - values.sum()) < 1e-9
    assert result.fraction_below(0.0).value == pytest.approx(0.25)


def test_curve_integrates_to_one():
    result = spectral_density(operator_of(np.linspace(-1, 1, 200)), probes=4, steps=20)
    grid = torch.linspace(-2, 2, 4001, dtype=torch.float64)
    assert float(torch.trapezoid(result.curve(grid, width=0.05), grid)) == pytest.approx(
        1, abs=1e-6
    )


def test_probes_in_turn_are_probes_together():
    a = operator_of(a_spectrum(300))
    together = spectral_density(a, probes=4, steps=10)
    in_turn = spectral_density(a, probes=4, steps=10, at_once=1)
    torch.testing.assert_close(together.nodes, in_turn.nodes, rtol=1e-7, atol=1e-9)


def test_one_probe_has_no_error():
    with pytest.raises(UsageError, match="at least 2"):
        spectral_density(torch.eye(4), probes=1)
