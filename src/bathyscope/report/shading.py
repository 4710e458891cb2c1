"""From a value to a shade: how far it is from good, or where it lies in the range that was seen.

A quantity with a bad side has a fixed scale (the quantity's `anchors`), so that a healthy strip is
pale in every report and two reports can be laid beside each other. Anchors decide colors, not
findings. A quantity without one is shaded over the range of the values given.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from bathyscope.core.quantity import Quantity

Family = Literal["warm", "split", "cool"]

LEVELS = 8
"""How many shades lie above the palest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shading:
    """How the values of one quantity become shades.

    `family` is the color ramp: `warm` grows from good to bad, `split` has a bad side above and one
    below the target, `cool` says large or small and nothing else.
    """

    family: Family
    log: bool
    start: float
    end: float
    target: float = 0.0

    def shade(self, value: float | None) -> float | None:
        """A number in [0, 1] ([-1, 1] for `split`, negative below the target); None if non-finite.

        Examples:
            >>> condition = Shading(family="warm", log=True, start=1e2, end=1e6)
            >>> [condition.shade(v) for v in (5.0, 1e4, 1e9, float("inf"))]
            [0.0, 0.5, 1.0, None]
        """
        if value is None or not math.isfinite(value):
            return None
        if self.family == "split":
            distance = _on_scale(value, self.log) - _on_scale(self.target, self.log)
            strength = _between(abs(distance), self.start, self.end)
            return math.copysign(strength, distance)
        ends = (_on_scale(self.start, self.log), _on_scale(self.end, self.log))
        return _between(_on_scale(value, self.log), *ends)


def shading(quantity: Quantity, values: Iterable[float | None]) -> Shading:
    """The shading of a quantity, given every value that is to be shown on the same scale."""
    finite = [v for v in values if v is not None and math.isfinite(v)]
    if quantity.anchors is not None and quantity.direction in ("high", "low"):
        start, end = quantity.anchors
        return Shading(family="warm", log=quantity.scale == "log", start=start, end=end)
    if quantity.anchors is not None and quantity.direction == "away":
        start, end = quantity.anchors
        log = quantity.scale == "log"
        distances = (math.log10(start), math.log10(end)) if log else (start, end)
        return Shading(
            family="split", log=log, start=distances[0], end=distances[1], target=quantity.target
        )
    log = logarithmic(quantity, finite)
    shown = [v for v in finite if v > 0] if log else finite
    if quantity.scale == "fraction":
        return Shading(family="cool", log=False, start=0.0, end=1.0)
    low, high = (min(shown), max(shown)) if shown else (0.0, 1.0)
    return Shading(family="cool", log=log, start=low, end=high)


def shade_class(value: float | None, shades: Shading) -> str:
    """The style class of a value: w warm, b below the target, c neutral, each 0 to 8; nf non-finite.

    Examples:
        >>> condition = Shading(family="warm", log=True, start=1e2, end=1e6)
        >>> [shade_class(v, condition) for v in (1.0, 1e4, 1e9, float("inf"), None)]
        ['w0', 'w4', 'w8', 'nf', '']
    """
    if value is None:
        return ""
    shade = shades.shade(value)
    if shade is None:
        return "nf"
    level = min(LEVELS, round(abs(shade) * LEVELS))
    if shades.family == "cool":
        return f"c{level}"
    return f"b{level}" if shade < 0 and level else f"w{level}"


def logarithmic(quantity: Quantity, finite: Iterable[float]) -> bool:
    """Whether the values are best shown on a logarithmic scale.

    What the quantity says; where it leaves it open, when all are positive over two decades or more.
    """
    values = list(finite)
    if quantity.scale != "auto":
        return quantity.scale == "log" and any(v > 0 for v in values)
    return bool(values) and min(values) > 0 and max(values) / min(values) >= 100


def _on_scale(value: float, log: bool) -> float:
    if not log:
        return value
    return math.log10(value) if value > 0 else -math.inf


def _between(value: float, start: float, end: float) -> float:
    if start == end:
        return 0.0
    if math.isinf(value):  # zero on a logarithmic scale
        return 1.0 if (value > 0) == (end > start) else 0.0
    return min(1.0, max(0.0, (value - start) / (end - start)))
