"""Kernels brought to where every singular value of the convolution is one target.

Two sets are to be met at once: kernels all of whose P(ω) have equal singular values, and kernels of
k taps. Projecting on the first (the polar factor at every frequency) leaves the second, and cutting
back to k taps undoes part of it. Newton–Schulz steps in between cost little and can be repeated.
"""

import math

import torch
from torch import Tensor

from bathyscope.linalg.gauge import Gauge
from bathyscope.linalg.kernel_step import approach, gauge_of, newton_schulz_step
from bathyscope.linalg.polar import polar_factor
from bathyscope.linalg.spectral_form import spectral_form
from bathyscope.linalg.taps import Offsets, Taps, frequency_matrices, half_plane

_COLD_STEPS = 8  # after an exact projection: they bring the spread from 0.2 to 0.05


def cheapest_projection(taps: Taps, target: float) -> tuple[Taps, Gauge]:
    """The cheapest projection that fits the kernel, and the gauge of the kernel given.

    A kernel near its target takes one Newton–Schulz step. One further off is projected exactly,
    which for a single tap is all, and else followed by steps that undo what the cut has done.
    A kernel that is zero or non-finite is returned as it is.
    """
    measured = approach(taps, target, finely=False)
    gauge = measured.gauge
    if not gauge.is_finite or gauge.is_zero:
        return taps, gauge
    if gauge.is_warm:
        return measured.step(), gauge
    if len(taps.layout.offsets) == 1:
        return exact_projection(taps, target), gauge
    return alternating_projection(taps, target, most=_COLD_STEPS)[0], gauge


def exact_projection(taps: Taps, target: float, *, grid: tuple[int, ...] | None = None) -> Taps:
    """Every P(ω) of a grid replaced by target times its polar factor, then cut to the taps.

    Args:
        taps: a kernel that is finite and not zero.
        target: the singular value wanted.
        grid: frequencies along each axis; None for a grid fine enough for the kernel.
    """
    if len(taps.layout.offsets) == 1:
        return taps.with_weight(polar_factor(taps.weight[..., 0])[..., None] * target)
    if grid is None:
        grid = tuple(2 * span + 2 if span > 1 else 1 for span in taps.layout.span)
    weight, offsets = taps.tall(), taps.layout.offsets
    polar = spectral_form(weight, 1.0, offsets, grid).polar()
    if polar is None:
        polar = _polar_by_svd(weight, offsets, grid)
    return taps.from_tall(polar * target)


def _polar_by_svd(weight: Tensor, offsets: Offsets, grid: tuple[int, ...]) -> Tensor:
    plane = half_plane(offsets, grid, dtype=weight.dtype, device=weight.device)
    polar = polar_factor(frequency_matrices(weight, plane.analysis))
    parts = torch.stack([polar.real, polar.imag]).reshape(2 * len(plane), -1)
    result: Tensor = (plane.synthesis @ parts).T.unflatten(0, weight.shape[:3])
    return result


def alternating_projection(
    taps: Taps, target: float, *, spread: float = 0.05, most: int = 64
) -> tuple[Taps, Gauge]:
    """Project exactly, then step and cut until the spread is as asked, or `most` steps are done.

    Momentum carries the kernel on along its last move, with β = 0.5 and, after eight steps, 0.85;
    it starts again when the spread grows.

    Returns:
        The taps and their gauge, of which `spread` says what was reached.

    Examples:
        >>> from bathyscope.linalg.convolution import convolution_of
        >>> from bathyscope.linalg.taps import polyphase
        >>> kernel = torch.randn(8, 2, 3, 3, generator=torch.Generator().manual_seed(0))
        >>> taps = polyphase(convolution_of(kernel))
        >>> gauge_of(exact_projection(taps, 2.0), 2.0).spread > 0.05
        True
        >>> alternating_projection(taps, 2.0, spread=0.01)[1].spread <= 0.01
        True
    """
    current = exact_projection(taps, target)
    previous, last = current.weight, math.inf
    for count in range(most):
        beta = 0.5 if count < 8 else 0.85
        ahead = Taps(torch.lerp(previous, current.weight, 1 + beta), current.layout)
        stepped, gauge = newton_schulz_step(ahead, target)
        if gauge.spread <= spread:
            return ahead, gauge
        previous = current.weight if gauge.spread < last else stepped.weight
        current, last = stepped, gauge.spread
    return current, gauge_of(current, target)
