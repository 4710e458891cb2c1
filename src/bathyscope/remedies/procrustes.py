"""The Procrustes remedy: after an optimizer's step, chosen kernels are made norm-preserving again."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import nn

from bathyscope.core.arguments import check_count, check_kind, check_name
from bathyscope.core.errors import UnknownName, UsageError, shorten
from bathyscope.core.hooks import Hooks
from bathyscope.linalg.convolution import convolution_of
from bathyscope.remedies.treated_layer import Gain, LayerProjection, Method, TreatedLayer

Layers = Mapping[str, nn.Module] | Iterable[nn.Module] | nn.Module

_KEY = "procrustes"  # in the optimizer's state_dict


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

    After every k-th `optimizer.step()` each kernel is brought to the nearest norm-preserving one,
    s·P(PᴴP)^{-1/2} at every frequency (norm_preservation, equation 8 and algorithm 1).
    The count of steps, and what `gain="measured"` has learned, are part of the optimizer's
    `state_dict()`, so that a run resumes exactly. A step that a gradient scaler skips is not a step.

    Args:
        optimizer: any torch optimizer; it must hold the layers' weights.
        layers: convolutions or linear layers, for instance `transition_layers(model)`.
        every: project after each this many steps.
        gain: the singular value s: "isotropic" √(d/min(d, c)), "relu" √2 times that for a layer
            that a ReLU follows, "measured" from the layer's own gradients (equation 7), or a number.
        method: "auto" takes one Newton–Schulz step where a kernel is near its target and projects
            exactly where it is not; "exact" always projects and cuts; "reference" is the paper's
            algorithm as written, for comparison.
        size: for "reference", the layers' output size in pixels, one number or one per layer.

    Returns:
        A handle: `handle.remove()` leaves the optimizer as it was, `handle.report()` shows spread
        and time spent, `handle.project()` projects at once.

    Raises:
        UsageError: a layer is not a linear map or not in the optimizer, or an option is not valid.

    Examples:
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
    every = check_count("every", every, minimum=1)
    named = _layers_by_name(layers)
    _check_held(optimizer, named)
    if check_name("method", method) not in get_args(Method):
        raise UnknownName("method", method, get_args(Method))
    if isinstance(gain, str) and gain not in get_args(Gain):
        raise UnknownName("gain", gain, get_args(Gain), hint="A positive number will do too.")
    sizes = _sizes(size, len(named)) if method == "reference" else [None] * len(named)
    treated = [
        LayerProjection(name, layer, gain=gain, method=method, size=n)
        for (name, layer), n in zip(named.items(), sizes, strict=True)
    ]
    return ProcrustesHandle(optimizer, treated, every=every)


class ProcrustesHandle:
    """A remedy in force: made by `procrustes_`, ended by `remove()`."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, treated: list[LayerProjection], *, every: int
    ) -> None:
        self._treated = treated
        self._every = every
        self._steps = 0
        self._projections = 0
        self._seconds = 0.0
        taken = optimizer.state_dict()
        self._key = next(k for k in _keys() if k not in taken)
        self._hooks = Hooks()
        self._hooks.after_step(optimizer, self._after_step)
        self._hooks.on_state_dict(optimizer, saved=self._save, loaded=self._load)

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
            layers=tuple(treated.description() for treated in self._treated),
        )

    def remove(self) -> None:
        """End the remedy: no hook and no state is left behind; the weights stay as they are."""
        self._hooks.remove()
        for treated in self._treated:
            treated.release()

    def _after_step(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        self._steps += 1
        if self._steps % self._every == 0:
            self.project()

    def _save(self, optimizer: torch.optim.Optimizer, state: dict[str, object]) -> None:
        fractions = [treated.energy and treated.energy.fraction for treated in self._treated]
        state[self._key] = {"steps": self._steps, "shares": fractions}

    def _load(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        # Torch hands over a copy of the dictionary. A state saved without the remedy starts again.
        saved = state.pop(self._key, {"steps": 0, "shares": [None] * len(self._treated)})
        if len(saved["shares"]) != len(self._treated):
            raise UsageError(
                f"The saved optimizer treated {len(saved['shares'])} layers, this one "
                f"{len(self._treated)}; attach the remedy to the same layers before loading."
            )
        self._steps = saved["steps"]
        for treated, fraction in zip(self._treated, saved["shares"], strict=True):
            if treated.energy is not None:
                treated.energy.fraction = fraction


def _full_precision(device: str) -> AbstractContextManager[None]:
    enabled = torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if enabled else nullcontext()


def _layers_by_name(layers: Layers) -> dict[str, nn.Module]:
    if isinstance(layers, nn.Module):
        layers = [layers]
    if not isinstance(layers, Iterable) or isinstance(layers, str) or hasattr(layers, "dtype"):
        raise UsageError(f"layers holds modules of the model, but {shorten(layers)} was given.")
    if not isinstance(layers, Mapping):
        layers = {str(index): layer for index, layer in enumerate(layers)}
    for layer in layers.values():
        check_kind("A layer", layer, nn.Module)
    if not layers:
        raise UsageError("There are no layers to treat; give at least one convolution.")
    return dict(layers)


def _check_held(optimizer: torch.optim.Optimizer, named: Mapping[str, nn.Module]) -> None:
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for name, layer in named.items():
        convolution_of(layer)  # shows what is not a linear map
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
            "give size=32 or one number per layer."
        )
    return sizes


def _keys() -> Iterable[str]:
    yield _KEY
    number = 1
    while True:
        yield f"{_KEY}.{number}"
        number += 1
