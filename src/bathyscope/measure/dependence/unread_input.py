"""How much of the input no output reads: tokens, pixels, columns."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bathyscope.measure.dependence.eval_pass import EvalPass, InputInGraph
from bathyscope.measure.dependence.input_roles import InputKind

UNREAD = 1e-7
"""Of the largest gradient of an entry: below it the output does not change with the entry, to rounding."""
_FADING = 1e-3
"""Of the largest: a gradient so small beside the first unread position has faded, and is not cut off."""


@dataclass(frozen=True, slots=True)
class UnreadInput:
    """The positions of an input without a gradient, over all samples that were asked.

    Attributes:
        name: of the input.
        kind: tokens, sequence, image or table.
        fraction: of the positions (tokens, pixels, columns) that are not padding.
        unread: the first of them.
        positions: how many there are.
        fades: whether the gradient falls off gradually towards them, as through time in recurrent layers.
        samples: that were asked.
    """

    name: str
    kind: InputKind
    fraction: float
    unread: tuple[int, ...]
    positions: int
    fades: bool
    samples: int


def unread_of_pass(
    ran: EvalPass,
    gradients: list[Tensor | None],
    *,
    asked: Tensor,
    padding: Tensor | None = None,
) -> tuple[UnreadInput, ...]:
    """What the gradients from all outputs of the asked samples leave out, for every input.

    Args:
        ran: the pass.
        gradients: of the sources.
        asked: (samples,), true for those whose outputs were asked.
        padding: (samples, positions) of the first input, true where there is padding.
    """
    results = []
    is_read = any(gradient is not None and bool(gradient.any()) for gradient in gradients)
    for source, gradient in zip(ran.sources, gradients, strict=True):
        strength = source.strengths(gradient).cpu()[asked]
        real = torch.ones_like(strength, dtype=torch.bool)
        if source is ran.main and padding is not None and padding.shape[1] == strength.shape[1]:
            real = ~padding[asked]
        results.append(_unread(source, strength, real, is_read=is_read))
    return tuple(results)


def _unread(source: InputInGraph, strength: Tensor, real: Tensor, *, is_read: bool) -> UnreadInput:
    counts = real.any(0)
    largest = float(strength.max()) if strength.numel() else 0.0
    by_position = torch.where(real, strength, torch.zeros((), device="cpu")).amax(0)
    silent = (by_position <= UNREAD * largest) & counts
    if not is_read:  # a last layer of zeros hides what is read
        silent = torch.zeros_like(silent)
    locations = silent.nonzero().flatten()
    return UnreadInput(
        name=source.name,
        kind=source.kind,
        fraction=len(locations) / max(1, int(counts.sum())),
        unread=tuple(int(p) for p in locations[:8]),
        positions=strength.shape[1],
        fades=_fades(strength.amax(0), largest),
        samples=len(strength),
    )


def _fades(strength: Tensor, largest: float) -> bool:
    """Whether the read position beside a run of unread ones at an end is itself hardly read."""
    reading = (strength > UNREAD * largest).nonzero().flatten()
    if not len(reading) or len(reading) == len(strength):
        return False
    first, last = int(reading.min()), int(reading.max())
    if last - first + 1 != len(reading):  # unread ones between
        return False
    ends = ((first, first > 0), (last, last < len(strength) - 1))
    edges = [float(strength[location]) for location, is_open in ends if is_open]
    return all(edge < _FADING * largest for edge in edges)
