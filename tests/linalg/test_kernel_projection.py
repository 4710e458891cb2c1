import math

import pytest
import torch

from bathyscope.linalg import conv_singular_values
from bathyscope.linalg.conv_spectrum import isotropic_target
from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.kernel_projection import (
    alternating_projection,
    cheapest_projection,
    exact_projection,
)
from bathyscope.linalg.kernel_step import gauge_of, newton_schulz_step
from bathyscope.linalg.norms import spread_about
from bathyscope.linalg.taps import compress, polyphase


def gaussian(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def taps_of(weight, **options):
    return polyphase(convolution_of(weight, **options))


def true_spread(taps, target, size=12, **options):
    spectrum = conv_singular_values(taps.to_kernel().flatten(0, 1), size, **options)
    return spread_about(spectrum.nonzero, target)


CASES = [
    ((8, 3, 3, 3), {}),
    ((3, 8, 3, 3), {}),
    ((6, 3, 5, 5), {"dilation": 2}),
    ((8, 2, 3, 3), {"groups": 2}),
    ((8, 2, 3, 3), {"stride": 2}),
    ((4, 4, 2, 4), {"stride": (1, 2)}),
    ((8, 4, 1, 1), {"stride": 2}),
    ((6, 3, 3), {}),
    ((4, 2, 3, 3, 3), {}),
    ((8, 4), {}),
]


@pytest.mark.parametrize(("shape", "options"), CASES)
def test_alternating_reaches_the_spread_it_reports(shape, options):
    conv = convolution_of(gaussian(*shape), **options)
    target = isotropic_target(conv)
    taps = compress(polyphase(conv))
    once = gauge_of(exact_projection(taps, target), target).spread
    result, gauge = alternating_projection(taps, target, spread=0.01, most=200)
    assert gauge.spread <= 0.01
    assert gauge.spread <= once
    size = () if len(shape) == 2 else 24 if len(shape) == 3 else 12
    if len(shape) < 5:
        assert true_spread(result, target, size, **options) == pytest.approx(gauge.spread, abs=2e-3)


def test_cold_kernels_are_projected_and_warm_ones_stepped():
    taps = taps_of(5 * gaussian(16, 8, 3, 3))
    cold, gauge = cheapest_projection(taps, 1.4)
    assert not gauge.is_warm
    after = gauge_of(cold, 1.4)
    assert after.is_warm
    assert after.spread < 0.5 * gauge_of(exact_projection(taps, 1.4), 1.4).spread
    warm, gauge = cheapest_projection(cold, 1.4)
    assert torch.equal(warm.weight, newton_schulz_step(cold, 1.4)[0].weight)
    assert gauge == after


def test_pointwise_is_exact_at_once():
    taps, gauge = cheapest_projection(taps_of(7 * gaussian(16, 8, 1, 1)), math.sqrt(2))
    assert not gauge.is_warm
    assert gauge_of(taps, math.sqrt(2)).spread < 1e-7


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, 1e-30, 1e30])
def test_zero_and_non_finite_kernels_are_returned_as_they_are(value):
    weight = torch.full((4, 2, 3, 3), value)
    taps, gauge = cheapest_projection(taps_of(weight), 1.0)
    assert torch.equal(taps.to_kernel()[0], weight) or math.isnan(value)
    assert gauge.is_zero or not gauge.is_finite
