import math

import pytest
import torch

from bathyscope.linalg import conv_singular_values
from bathyscope.linalg.conv_spectrum import isotropic_target, spread_about
from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.kernel_projection import (
    alternating_projection,
    exact_projection,
    projected,
)
from bathyscope.linalg.kernel_step import gauge_of, newton_schulz_step
from bathyscope.linalg.reference_projection import reference_projection
from bathyscope.linalg.taps import compressed, polyphase


def gaussian(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def taps_of(weight, **options):
    return polyphase(convolution_of(weight, **options))


def near_target(weight, **options):
    """Taps close enough to the target for a full Newton–Schulz step."""
    conv = convolution_of(weight, **options)
    target = isotropic_target(conv)
    return exact_projection(polyphase(conv), target), target


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
def test_step_equals_the_step_at_every_frequency_of_a_large_image_then_the_cut(shape, options):
    taps, target = near_target(gaussian(*shape), **options)
    stepped, gauge = newton_schulz_step(taps, target)
    assert gauge.bound < 2.6, "the guard would shorten the step"
    grid = tuple(18 for _ in taps.layout.span)
    axes = tuple(range(4, 4 + len(grid)))
    # Place the taps on a torus much larger than the kernel, step there, cut back.
    image = torch.zeros(*taps.weight.shape[:3], 1, *grid, dtype=torch.float64)
    for index, place in enumerate(taps.layout.offsets):
        image[(..., 0, *place)] = taps.weight[..., index]
    p = torch.fft.fftn(image, dim=axes) if axes else image.to(torch.complex128)
    p = p.movedim((1, 2), (-2, -1))
    p = 1.5 * p - 0.5 * (p @ (p.mH @ p)) / target**2
    p = p.movedim((-2, -1), (1, 2))
    image = (torch.fft.ifftn(p, dim=axes) if axes else p).real
    cut = torch.stack([image[(..., 0, *place)] for place in taps.layout.offsets], -1)
    reference = taps.with_weight(cut)
    assert (stepped.weight - reference.weight).abs().max() < 1e-12


@pytest.mark.parametrize(("shape", "options"), CASES)
def test_alternating_reaches_the_spread_it_reports(shape, options):
    conv = convolution_of(gaussian(*shape), **options)
    target = isotropic_target(conv)
    taps = compressed(polyphase(conv))
    once = gauge_of(exact_projection(taps, target), target).spread
    result, gauge = alternating_projection(taps, target, spread=0.01, most=200)
    assert gauge.spread <= 0.01
    assert gauge.spread <= once
    size = () if len(shape) == 2 else 24 if len(shape) == 3 else 12
    if len(shape) < 5:
        assert true_spread(result, target, size, **options) == pytest.approx(gauge.spread, abs=2e-3)


def test_gauge_against_the_spectrum():
    weight = gaussian(8, 4, 3, 3) / 5
    taps = taps_of(weight)
    gauge = gauge_of(taps, 1.4)
    squares = conv_singular_values(weight, 15).values.square() / 1.4**2
    assert gauge.spread == pytest.approx((squares - 1).square().mean().sqrt().item() / 2)
    on_grid = conv_singular_values(weight, 5).largest ** 2 / 1.4**2
    assert gauge.bound >= on_grid * 0.95


@pytest.mark.parametrize("scale", [0.01, 1.0, 2.0, 5.0, 100.0])
@pytest.mark.parametrize("shape", [(1, 1, 3, 3), (16, 8, 3, 3), (4, 4, 1, 1)])
def test_the_guard_keeps_every_mode_from_changing_sign(scale, shape):
    # K + η(K − KKᴴK): a mode that changed sign would turn ⟨P, P_after⟩ negative somewhere.
    taps = taps_of(scale * gaussian(*shape))
    stepped, _ = newton_schulz_step(taps, 1.0)
    assert stepped.weight.isfinite().all()
    assert (stepped.weight * taps.weight).sum() > 0
    if shape[-1] == 1:
        left, _, right = torch.linalg.svd(taps.weight[0, ..., 0])
        assert (left.T @ stepped.weight[0, ..., 0] @ right.T).diagonal().min() >= -1e-9


def test_repeated_guarded_steps_come_down_from_far_off():
    taps = taps_of(30 * gaussian(8, 4, 3, 3))
    for _ in range(80):
        taps, gauge = newton_schulz_step(taps, 1.5)
    assert gauge.spread < 0.05


def test_cold_kernels_are_projected_and_warm_ones_stepped():
    taps = taps_of(5 * gaussian(16, 8, 3, 3))
    cold, gauge = projected(taps, 1.4)
    assert not gauge.is_warm
    after = gauge_of(cold, 1.4)
    assert after.is_warm
    assert after.spread < 0.5 * gauge_of(exact_projection(taps, 1.4), 1.4).spread
    warm, gauge = projected(cold, 1.4)
    assert torch.equal(warm.weight, newton_schulz_step(cold, 1.4)[0].weight)
    assert gauge == after


def test_pointwise_is_exact_at_once():
    taps, gauge = projected(taps_of(7 * gaussian(16, 8, 1, 1)), math.sqrt(2))
    assert not gauge.is_warm
    assert gauge_of(taps, math.sqrt(2)).spread < 1e-7


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, 1e-30, 1e30])
def test_zero_and_non_finite_kernels_are_returned_as_they_are(value):
    weight = torch.full((4, 2, 3, 3), value)
    taps, gauge = projected(taps_of(weight), 1.0)
    assert torch.equal(taps.to_kernel()[0], weight) or math.isnan(value)
    assert gauge.is_zero or not gauge.is_finite


def test_reference_agrees_with_the_exact_projection_where_its_iteration_converges():
    # With c ≤ d and a mild condition number ten iterations are enough.
    taps, target = near_target(gaussian(16, 4, 3, 3))
    reference = reference_projection(taps, target, grid=(8, 8))
    exact = exact_projection(taps, target, grid=(8, 8))
    assert (reference.weight - exact.weight).abs().max() < 1e-3 * exact.weight.abs().max()


def test_reference_keeps_the_kernel_in_place():
    # A conjugated spectrum would mirror the kernel and leave its energy in one corner tap.
    taps, target = near_target(gaussian(64, 3, 3, 3))
    result = reference_projection(taps, target, grid=(32, 32))
    energy = result.weight.square().sum((0, 1, 2))
    assert energy.max() / energy.sum() < 0.3
    assert torch.nn.functional.cosine_similarity(result.weight, taps.weight, dim=-1).mean() > 0.9
