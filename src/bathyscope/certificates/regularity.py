"""Assumption 2, tried on a loss: is it convex, and does its slope never jump?"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.losses import ConvexLoss, Differentiable

_SEGMENTS = 16  # at least
_BISECTIONS = 45  # a segment of length one is then as short as rounding allows
_LOCATIONS = 9  # at which the slope along a segment is compared
_CONVEX = 1e-9  # fraction of itself by which a slope may fall: rounding
# Fraction of the slope's change that may be left on a bisected segment: |r|^1.5 leaves 2e-7, a kink
# keeps what it has.
_SMOOTH = 1e-6

Rows = Float[Tensor, " n c"]
Slope = Callable[[Float[Tensor, " n"]], Float[Tensor, " n"]]


@dataclass(frozen=True)
class Regularity:
    """How far a loss is from convex and from differentiable, both shares and 0 for the named losses.

    `violation` is the largest fall of the slope along a segment, as a fraction of the slopes; that of a
    convex loss never falls. `jump` is the largest fraction of the change of slope along a segment that
    happens at one point.
    """

    violation: float
    jump: float

    @property
    def is_convex(self) -> bool:
        """Whether no slope fell by more than rounding."""
        return self.violation <= _CONVEX

    @property
    def is_differentiable(self) -> bool:
        """Whether no jump of the slope was found."""
        return self.jump <= _SMOOTH

    @property
    def holds(self) -> bool:
        """Assumption 2, as far as samples show."""
        return self.is_convex and self.is_differentiable


def regularity(loss: ConvexLoss, *, num_outputs: int) -> Regularity:
    """Convexity and differentiability of a loss along sampled segments of outputs.

    Half of the segments pass through the targets, where the residuals vanish and most losses with a
    kink have it. The named losses are differentiable and convex by their formulas.

    Examples:
        >>> from torch.nn.functional import huber_loss, l1_loss
        >>> y = torch.tensor([[0.5], [2.0]], dtype=torch.float64)
        >>> regularity(Differentiable(huber_loss, y), num_outputs=1).holds
        True
        >>> regularity(Differentiable(l1_loss, y), num_outputs=1).jump
        1.0
    """
    if not isinstance(loss, Differentiable):
        return Regularity(0.0, 0.0)
    generator = torch.Generator().manual_seed(0)
    violation = jump = 0.0
    for turn in range(-(-_SEGMENTS // len(loss.targets))):
        a, b = _segments(loss.targets, num_outputs, turn, generator)

        def slope(t: Float[Tensor, " n"], a: Rows = a, b: Rows = b) -> Float[Tensor, " n"]:
            return (loss.gradients(a + t[:, None] * (b - a)) * (b - a)).sum(dim=1)

        violation = max(violation, _violation(slope, len(a)))
        jump = max(jump, _jump(slope, len(a)))
    return Regularity(violation, jump)


def _segments(
    targets: Tensor, num_outputs: int, turn: int, generator: torch.Generator
) -> tuple[Rows, Rows]:
    """Ends of a segment per sample, in the targets' units; every other passes through its target."""
    drawn = torch.randn(
        2, len(targets), num_outputs, generator=generator, dtype=torch.float64, device="cpu"
    )
    if not targets.is_floating_point() or targets.numel() != len(targets) * num_outputs:
        return 3 * drawn[0], 3 * drawn[1]
    y = targets.reshape(len(targets), num_outputs)
    # far from zero the spacing of floating-point numbers must stay small beside the segment
    unit = max(float(y.std(correction=0)), 1e-3 * float(y.abs().max())) or 1.0
    beyond = 0.5 + torch.rand(len(y), 1, generator=generator, dtype=torch.float64, device="cpu")
    a, b = y.mean() + 3 * unit * drawn
    through = (turn + torch.arange(len(y)))[:, None] % 2 == 0
    return (
        torch.where(through, y + unit * drawn[0], a),
        torch.where(through, y - beyond * unit * drawn[0], b),
    )


def _violation(slope: Slope, count: int) -> float:
    """The largest fall between places along the segments."""
    slopes = torch.stack(
        [slope(t.expand(count)) for t in torch.linspace(0, 1, _LOCATIONS, dtype=torch.float64)]
    )
    falls = (slopes[:-1] - slopes[1:]) / _size(slopes)
    return max(0.0, float(falls.nan_to_num(nan=0.0).max()))


def _jump(slope: Slope, count: int) -> float:
    """By bisection, always into the half in which the slope changes more."""
    low = torch.zeros(count, dtype=torch.float64)
    high = torch.ones(count, dtype=torch.float64)
    slope_low, slope_high = slope(low), slope(high)
    change = (slope_high - slope_low).abs()
    counts = change > _SMOOTH * _size(torch.stack([slope_low, slope_high]))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        result = slope(middle)
        right = (slope_high - result).abs() > (result - slope_low).abs()
        low, slope_low = torch.where(right, middle, low), torch.where(right, result, slope_low)
        high, slope_high = torch.where(right, high, middle), torch.where(right, slope_high, result)
    left = (slope_high - slope_low).abs()
    fractions = torch.where(counts, left / change, 0.0)
    return float(fractions.nan_to_num(nan=0.0).max())


def _size(slopes: Float[Tensor, " p n"]) -> Float[Tensor, " n"]:
    """Of the slopes along each segment; where all are tiny beside the others they are noise."""
    sizes = slopes.abs().amax(dim=0)
    return sizes + _SMOOTH * sizes.max() + torch.finfo(torch.float64).tiny
