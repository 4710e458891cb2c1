"""One layer under the Procrustes remedy: its target, and how its kernel is brought there."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, cast

from torch import nn

from bathyscope.core.arguments import check_number
from bathyscope.core.devices import with_double
from bathyscope.linalg.conv_spectrum import isotropic_target, torus_singular_values
from bathyscope.linalg.convolution import convolution_of, per_axis, working_dtype
from bathyscope.linalg.gauge import Gauge
from bathyscope.linalg.kernel_projection import cheapest_projection, exact_projection
from bathyscope.linalg.kernel_step import gauge_of
from bathyscope.linalg.norms import spread_about
from bathyscope.linalg.reference_projection import reference_projection
from bathyscope.linalg.taps import Taps, compress, polyphase
from bathyscope.remedies.gradient_energy import GradientEnergy

Gain = Literal["isotropic", "relu", "measured"]
Method = Literal["auto", "exact", "reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatedLayer:
    """A layer as the remedy finds it: its target σ, the rms of σ/target − 1, and what is wrong."""

    name: str
    target: float
    spread: float
    left_alone: str | None


class LayerProjection:
    """One layer under the remedy: its taps, its target and the way it is projected."""

    def __init__(
        self, name: str, layer: nn.Module, *, gain: Gain | float, method: Method, size: int | None
    ) -> None:
        conv = convolution_of(layer)
        self.name = name
        self.layer = layer
        self.taps = compress(polyphase(conv))
        self.energy: GradientEnergy | None = None
        self.fixed = isotropic_target(conv)
        self.left_alone: str | None = None
        self.projection: Callable[[Taps, float], tuple[Taps, Gauge]] = cheapest_projection
        if method == "exact":
            self.projection = _exactly
        elif method == "reference":
            # As written, the algorithm knows no stride: its frequencies are those of the kernel.
            self.taps = polyphase(replace(conv, stride=(1,) * len(conv.stride)))
            self.projection = _reference(per_axis(size, len(conv.kernel), "size"))
        if gain == "relu":
            self.fixed *= math.sqrt(2)
        elif gain == "measured":
            self.energy = _energy_of(layer)
        elif not isinstance(gain, str):
            self.fixed = check_number("gain", gain, low=0.0, open_low=True)

    @property
    def weight(self) -> nn.Parameter:
        """The layer's own weight."""
        return cast(nn.Parameter, self.layer.weight)

    @property
    def target(self) -> float:
        """The singular value wanted now."""
        measured = None if self.energy is None else self.energy.target
        return self.fixed if measured is None else measured

    def current(self) -> Taps:
        """The layer's kernel as taps, in a precision that can be computed in."""
        weight = with_double(self.weight.detach())
        return self.taps.with_kernel(weight.to(working_dtype(weight.dtype)))

    def project(self) -> None:
        """Bring the layer's kernel to its target, or leave it alone and say why, once."""
        weight = self.weight
        if self.energy is not None:
            self.energy.update()
        taps, gauge = self.projection(self.current(), self.target)
        trouble = _trouble(gauge)
        if trouble is None:
            weight.copy_(taps.to_kernel(weight.shape))
        elif self.left_alone is None:
            warnings.warn(
                f"Layer {self.name} is left alone by the Procrustes projection: {trouble}.",
                RuntimeWarning,
                stacklevel=2,
            )
        self.left_alone = trouble or self.left_alone

    def description(self) -> TreatedLayer:
        """The layer as it is now."""
        taps, target = self.current(), self.target
        trouble = _trouble(gauge_of(taps, target))
        spread = math.nan
        if trouble is None:
            # Fine enough that the mean over frequencies is that over any larger image.
            grid = tuple(4 * span for span in taps.layout.span)
            spread = spread_about(torus_singular_values(convolution_of(self.layer), grid), target)
        return TreatedLayer(name=self.name, target=target, spread=spread, left_alone=trouble)

    def release(self) -> None:
        """Stop watching the layer."""
        if self.energy is not None:
            self.energy.remove()


def _exactly(taps: Taps, target: float) -> tuple[Taps, Gauge]:
    gauge = gauge_of(taps, target)
    return (taps if _trouble(gauge) else exact_projection(taps, target)), gauge


def _reference(grid: tuple[int, ...]) -> Callable[[Taps, float], tuple[Taps, Gauge]]:
    def project(taps: Taps, target: float) -> tuple[Taps, Gauge]:
        gauge = gauge_of(taps, target)
        return (taps if _trouble(gauge) else reference_projection(taps, target, grid=grid)), gauge

    return project


def _trouble(gauge: Gauge) -> str | None:
    if not gauge.is_finite:
        return "its kernel holds NaN or infinite entries"
    return "its kernel is zero" if gauge.is_zero else None


def _energy_of(layer: nn.Module) -> GradientEnergy:
    conv = convolution_of(layer)
    groups, d, c, _ = polyphase(conv).weight.shape
    return GradientEnergy(
        layer, rank_fraction=1 / isotropic_target(conv) ** 2, rank=groups * min(d, c)
    )
