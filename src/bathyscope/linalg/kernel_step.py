"""A Newton–Schulz step of a kernel at every frequency of any image, cut back to the kernel's taps."""

from typing import NamedTuple

from bathyscope.linalg.gauge import Gauge
from bathyscope.linalg.spatial_form import SpatialForm, spatial_form
from bathyscope.linalg.spectral_form import SpectralForm, spectral_form
from bathyscope.linalg.taps import Taps


class Approach(NamedTuple):
    """A kernel measured against its target: its gauge, and the step from where it is."""

    taps: Taps
    form: SpatialForm | SpectralForm
    gauge: Gauge

    def step(self) -> Taps:
        """The kernel after the guarded step."""
        return self.taps.from_tall(self.form.step(self.gauge.step_length))


def approach(taps: Taps, target: float, *, finely: bool = True) -> Approach:
    """Measure a kernel against its target, in the form that costs least.

    The Gram matrix is that of the smaller side: a step commutes with the transpose.

    Args:
        taps: the kernel.
        target: the singular value wanted.
        finely: False where no step is taken of a kernel far above its target: its bound is then
            coarse, and a step would be short.
    """
    weight = taps.tall()
    small = spatial_form(weight, target, taps.layout.offsets)
    if small is not None:
        gauge = small.gauge(finely=finely)
        if gauge is not None:
            return Approach(taps, small, gauge)
    form = spectral_form(weight, target, taps.layout.offsets, taps.layout.alias_free_grid)
    return Approach(taps, form, form.gauge())


def newton_schulz_step(taps: Taps, target: float) -> tuple[Taps, Gauge]:
    """One guarded Newton–Schulz step of a kernel, cut back to its taps, and the gauge before it.

    K ← K + η(K − [K·KᴴK]/target²), the bracket cut to the kernel's taps: a gradient step on
    ‖PᴴP/target² − I‖² within kernels of k taps. With η = ½ this is the Newton–Schulz step at every
    frequency of any image, followed by the cut. A mode of size σ is multiplied by
    1 + η(1 − σ²/target²); the guard shortens η so that none changes sign.

    Args:
        taps: a kernel that is finite and not zero.
        target: the singular value wanted.

    Returns:
        The taps after the step, and the gauge of those given.

    Examples:
        >>> import torch
        >>> from bathyscope.linalg.convolution import convolution_of
        >>> from bathyscope.linalg.taps import polyphase
        >>> taps = polyphase(convolution_of(torch.full((1, 1, 1), 1.1)))
        >>> stepped, gauge = newton_schulz_step(taps, 1.0)
        >>> round(gauge.spread, 4), round(stepped.weight.item(), 4)
        (0.105, 0.9845)
    """
    measured = approach(taps, target)
    return measured.step(), measured.gauge


def gauge_of(taps: Taps, target: float) -> Gauge:
    """How far a kernel is from having every singular value at the target."""
    return approach(taps, target).gauge
