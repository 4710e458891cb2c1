"""The Procrustes remedy: after an optimizer's step, chosen kernels are made norm-preserving again."""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.linalg.conv_spectrum import (
    isotropic_target,
    spread_about,
    torus_singular_values,
)
from bathyscope.linalg.convolution import convolution_of, per_axis, working_dtype
from bathyscope.linalg.kernel_projection import exact_projection, projected
from bathyscope.linalg.kernel_step import Gauge, gauge_of
from bathyscope.linalg.reference_projection import reference_projection
from bathyscope.linalg.taps import Taps, compressed, polyphase
from bathyscope.remedies.gradient_energy import GradientEnergy

Gain = Literal["isotropic", "relu", "measured"]
Method = Literal["auto", "exact", "reference"]
Layers = Mapping[str, nn.Module] | Iterable[nn.Module] | nn.Module

_KEY = "procrustes"  # in the optimizer's state_dict


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatedLayer:
    """A layer as the remedy finds it: its target σ, the rms of σ/target − 1, and what is wrong."""

    name: str
    target: float
    spread: float
    left_alone: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcrustesReport:
    """What the remedy has done so far, and what it cost."""

    steps: int
    projections: int
    seconds: float
    layers: tuple[TreatedLayer, ...]


def procrustes_(
    optimizer: torch.optim.Optimizer,
    layers: Layers,
    *,
    every: int = 2,
    gain: Gain | float = "isotropic",
    method: Method = "auto",
    size: int | Sequence[int] | None = None,
) -> "ProcrustesHandle":
    """Keep the singular values of some layers at one target while the optimizer trains them.

    After every k-th `optimizer.step()` each kernel K is replaced by the nearest norm-preserving
    one, s·P(PᴴP)^{-1/2} at every frequency (norm_preservation, equation 8 and algorithm 1).
    The count of steps, and what `gain="measured"` has learnt, are part of the optimizer's
    `state_dict()`, so that a run resumes exactly. A step that a gradient scaler skips is no step.

    Args:
        optimizer: any torch optimizer; it must hold the layers' weights.
        layers: convolutions or linear layers, for instance `transition_layers(model)`.
        every: project after each so many steps.
        gain: the singular value s: "isotropic" √(d/min(d, c)), "relu" √2 times that for a layer
            that a ReLU follows, "measured" from the layer's own gradients (equation 7), or a number.
        method: "auto" takes one Newton–Schulz step where a kernel is near its target and projects
            exactly where it is not; "exact" always projects and cuts; "reference" is the paper's
            algorithm as written, for comparison.
        size: for "reference", the layers' output size in pixels, one number or one a layer.

    Returns:
        A handle: `handle.remove()` leaves the optimizer as it was, `handle.report()` tells spread
        and time spent, `handle.project()` projects at once.

    Raises:
        UsageError: a layer is no linear map or not in the optimizer, or an option is not valid.

    Example:
        >>> layer = nn.Linear(4, 8, bias=False)
        >>> optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        >>> handle = procrustes_(optimizer, layer, every=1)
        >>> layer(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()
        >>> torch.allclose(layer.weight.T @ layer.weight, 2 * torch.eye(4), atol=1e-5)
        True
        >>> handle.remove()
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(f"A torch optimizer is needed, not {type(optimizer).__name__}.")
    if every < 1:
        raise UsageError(f"every={every} is no number of steps; give 1 or more.")
    named = _named(layers)
    _check_held(optimizer, named)
    if method not in get_args(Method):
        raise UsageError(f"There is no method {method!r}; give one of {get_args(Method)}.")
    sizes = _sizes(size, len(named)) if method == "reference" else [None] * len(named)
    treated = [
        _Treated(name, layer, gain=gain, method=method, size=n)
        for (name, layer), n in zip(named.items(), sizes, strict=True)
    ]
    return ProcrustesHandle(optimizer, treated, every=every)


class ProcrustesHandle:
    """A remedy in force: made by `procrustes_`, ended by `remove()`."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, treated: list["_Treated"], *, every: int
    ) -> None:
        self._treated = treated
        self._every = every
        self._steps = 0
        self._projections = 0
        self._seconds = 0.0
        taken = optimizer.state_dict()
        self._key = next(k for k in _keys() if k not in taken)
        self._hooks = [
            optimizer.register_step_post_hook(self._after_step),
            optimizer.register_state_dict_post_hook(self._save),
            optimizer.register_load_state_dict_pre_hook(self._load),
        ]

    def project(self) -> None:
        """Project every layer now, whatever the count of steps."""
        began = time.perf_counter()
        with torch.no_grad(), _full_precision(self._treated[0].weight.device.type):
            for treated in self._treated:
                treated.project()
        self._projections += 1
        self._seconds += time.perf_counter() - began

    def report(self) -> ProcrustesReport:
        """Steps, projections and seconds so far, and each layer as it is now."""
        return ProcrustesReport(
            steps=self._steps,
            projections=self._projections,
            seconds=self._seconds,
            layers=tuple(treated.described() for treated in self._treated),
        )

    def remove(self) -> None:
        """End the remedy: no hook and no state is left behind; the weights stay as they are."""
        for hook in self._hooks:
            hook.remove()
        for treated in self._treated:
            treated.release()

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._steps += 1
        if self._steps % self._every == 0:
            self.project()

    def _save(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        shares = [treated.energy and treated.energy.share for treated in self._treated]
        state[self._key] = {"steps": self._steps, "shares": shares}

    def _load(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        # Torch hands over a copy of the dictionary. A state saved without the remedy starts anew.
        saved = state.pop(self._key, {"steps": 0, "shares": [None] * len(self._treated)})
        if len(saved["shares"]) != len(self._treated):
            raise UsageError(
                f"The saved optimizer treated {len(saved['shares'])} layers, this one "
                f"{len(self._treated)}; attach the remedy to the same layers before loading."
            )
        self._steps = saved["steps"]
        for treated, share in zip(self._treated, saved["shares"], strict=True):
            if treated.energy is not None:
                treated.energy.share = share


class _Treated:
    """One layer under treatment: its taps, its target and the way it is projected."""

    def __init__(
        self,
        name: str,
        layer: nn.Module,
        *,
        gain: Gain | float,
        method: Method,
        size: int | None,
    ) -> None:
        conv = convolution_of(layer)
        self.name = name
        self.layer = layer
        self.grouped = conv.weight.shape
        self.taps = compressed(polyphase(conv))
        self.energy: GradientEnergy | None = None
        self.fixed = isotropic_target(conv)
        self.left_alone: str | None = None
        self.projection: Callable[[Taps, float], tuple[Taps, Gauge]] = projected
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
        elif isinstance(gain, str):
            pass
        elif gain > 0 and math.isfinite(gain):
            self.fixed = float(gain)
        else:
            raise UsageError(f"gain={gain} is no singular value; give a positive number.")

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
        weight = self.weight.detach()
        return self.taps.with_kernel(weight.to(working_dtype(weight.dtype)).reshape(self.grouped))

    def project(self) -> None:
        """Bring the layer's kernel to its target, or leave it alone and say why, once."""
        weight = self.weight
        if self.energy is not None:
            self.energy.update()
        taps, gauge = self.projection(self.current(), self.target)
        trouble = _trouble(gauge)
        if trouble is None:
            weight.copy_(taps.to_kernel().reshape(weight.shape))
        elif self.left_alone is None:
            warnings.warn(
                f"Layer {self.name} is left alone by the Procrustes projection: {trouble}.",
                RuntimeWarning,
                stacklevel=2,
            )
        self.left_alone = trouble or self.left_alone

    def described(self) -> TreatedLayer:
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


def _full_precision(device: str) -> AbstractContextManager[None]:
    enabled = torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if enabled else nullcontext()


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
        layer, rank_share=1 / isotropic_target(conv) ** 2, rank=groups * min(d, c)
    )


def _named(layers: Layers) -> dict[str, nn.Module]:
    if isinstance(layers, nn.Module):
        layers = [layers]
    if not isinstance(layers, Mapping):
        layers = {str(index): layer for index, layer in enumerate(layers)}
    if not layers:
        raise UsageError("There are no layers to treat; give at least one convolution.")
    return dict(layers)


def _check_held(optimizer: torch.optim.Optimizer, named: Mapping[str, nn.Module]) -> None:
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for name, layer in named.items():
        convolution_of(layer)  # tells what is no linear map
        if id(layer.weight) not in held:
            raise UsageError(
                f"The weight of layer {name} is not in the optimizer, which therefore does not "
                "train it; give layers whose weights the optimizer holds."
            )


def _sizes(size: int | Sequence[int] | None, count: int) -> list[int]:
    sizes = [size] * count if isinstance(size, int) else list(size or [])
    if len(sizes) != count or any(n < 1 for n in sizes):
        raise UsageError(
            f"method='reference' needs the output size of each of {count} layers, not {size!r}; "
            "give size=32 or one number a layer."
        )
    return sizes


def _keys() -> Iterable[str]:
    yield _KEY
    number = 1
    while True:
        yield f"{_KEY}.{number}"
        number += 1
