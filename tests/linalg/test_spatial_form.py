import math

import pytest
import torch

from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.gauge import Gauge
from bathyscope.linalg.kernel_projection import exact_projection
from bathyscope.linalg.spatial_form import spatial_form
from bathyscope.linalg.spectral_form import spectral_form
from bathyscope.linalg.taps import polyphase


def gaussian(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def both_forms(taps, target):
    weight, layout = taps.tall(), taps.layout
    return (
        spatial_form(weight, target, layout.offsets),
        spectral_form(weight, target, layout.offsets, layout.alias_free_grid),
    )


CASES = [
    ((64, 3, 3, 3), {}),
    ((3, 16, 3, 3), {}),
    ((8, 2, 5), {"dilation": 2}),
    ((12, 2, 3, 3), {"groups": 3}),
    ((8, 2, 3, 3), {"stride": 2}),
    ((16, 8, 1, 1), {"stride": 2}),
    ((16, 4, 1, 1), {"groups": 2}),
    ((6, 1, 2, 2, 3), {}),
]


@pytest.mark.parametrize(("shape", "options"), CASES)
def test_the_step_and_the_spread_are_those_of_the_frequencies(shape, options):
    taps = exact_projection(polyphase(convolution_of(gaussian(*shape), **options)), 1.3)
    taps = taps.with_weight(1.02 * taps.weight)
    space, frequency = both_forms(taps, 1.3)
    torch.testing.assert_close(space.step(0.4), frequency.step(0.4), rtol=0, atol=1e-12)
    gauge = space.gauge()
    if gauge is not None:
        assert gauge.spread == pytest.approx(frequency.gauge().spread, rel=1e-9)
        assert gauge.bound >= frequency.gauge().bound * (1 - 1e-9) or space.fold is None


@pytest.mark.parametrize("scale", [0.0, 3.0, math.nan])
def test_a_kernel_of_many_taps_that_is_not_near_is_left_to_the_frequencies(scale):
    taps = polyphase(convolution_of(scale * gaussian(8, 3, 3, 3)))
    space, frequency = both_forms(taps, 1.0)
    assert space.gauge() is None
    assert isinstance(frequency.gauge(), Gauge)


def test_a_large_kernel_has_no_spatial_form():
    taps = polyphase(convolution_of(gaussian(32, 32, 3, 3)))
    assert spatial_form(taps.weight, 1.0, taps.layout.offsets) is None


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e-3, 1.0])
def test_a_small_kernel_of_one_tap_is_zero_only_where_its_square_is(size):
    taps = polyphase(convolution_of(size * gaussian(8, 4, 1, 1).float()))
    gauge = spatial_form(taps.weight, 1.0, taps.layout.offsets).gauge()
    assert gauge.is_zero == (size == 1e-30)
    assert gauge.is_finite
