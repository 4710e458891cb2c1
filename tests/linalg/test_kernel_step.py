import pytest
import torch

from bathyscope.linalg import conv_singular_values
from bathyscope.linalg.conv_spectrum import isotropic_target
from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.kernel_projection import (
    exact_projection,
)
from bathyscope.linalg.kernel_step import gauge_of, newton_schulz_step
from bathyscope.linalg.taps import polyphase


def gaussian(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def taps_of(weight, **options):
    return polyphase(convolution_of(weight, **options))


def near_target(weight, **options):
    """Taps close enough to the target for a full Newton–Schulz step."""
    conv = convolution_of(weight, **options)
    target = isotropic_target(conv)
    return exact_projection(polyphase(conv), target), target


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
    for index, location in enumerate(taps.layout.offsets):
        image[(..., 0, *location)] = taps.weight[..., index]
    p = torch.fft.fftn(image, dim=axes) if axes else image.to(torch.complex128)
    p = p.movedim((1, 2), (-2, -1))
    p = 1.5 * p - 0.5 * (p @ (p.mH @ p)) / target**2
    p = p.movedim((-2, -1), (1, 2))
    image = (torch.fft.ifftn(p, dim=axes) if axes else p).real
    cut = torch.stack([image[(..., 0, *location)] for location in taps.layout.offsets], -1)
    reference = taps.with_weight(cut)
    assert (stepped.weight - reference.weight).abs().max() < 1e-12


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
