"""What is shown, whoever draws it: a panel per quantity, a trace per network or moment.

The terminal draws a trace as a strip of characters, the page as a strip and a curve, a picture as
either. Scale, limits, ticks, shades and the good range are decided here, once for all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, log10
from typing import Literal

from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.quantity import Quantity
from bathyscope.core.records import Block, Measurement, Number
from bathyscope.measure.quantities import quantity_of
from bathyscope.report.numbers import number, range_of
from bathyscope.report.record import Curve, Report
from bathyscope.report.shading import Shading, logarithmic, shade_class, shading

_MOST_MARKS = 12  # more transitions than this would hide the curves
_MOST_TICKS = 5

States = Sequence[tuple[str, Report]]
Tick = tuple[float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One network, moment or block in a panel; None is a gap, NaN and Inf are shown as such."""

    name: str
    color: int
    x: Sequence[float]
    y: Sequence[float | None]
    names: Sequence[str] = ()
    shades: Sequence[str] = ()

    @property
    def finite(self) -> list[float]:
        """The finite values, in order."""
        return [v for v in self.y if v is not None and isfinite(v)]

    @property
    def num_broken(self) -> int:
        """How many values are NaN or Inf."""
        return sum(v is not None for v in self.y) - len(self.finite)

    @property
    def span(self) -> str:
        """Smallest and largest finite value, and how many are not."""
        return range_of(self.y)

    def drawable(self, *, log: bool) -> list[float | None]:
        """The values that an axis can show, None elsewhere."""
        return [v if v is not None and isfinite(v) and (v > 0 or not log) else None for v in self.y]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One quantity: its traces on one scale, its good range, and where something is marked."""

    title: str
    traces: Sequence[Trace]
    axis: Literal["block", "step"] = "step"
    log: bool = False
    marks: Sequence[float] = ()
    quantity: Quantity | None = None
    shading: Shading | None = None

    @property
    def key(self) -> str:
        """`measurement.column`, empty for a curve over steps."""
        return self.quantity.key if self.quantity else ""

    @property
    def label(self) -> str:
        """The title with its unit."""
        return self.quantity.axis if self.quantity else self.title

    @property
    def has_bad_side(self) -> bool:
        """Whether values can be good or bad, and not only small or large."""
        return self.shading is not None and self.shading.family != "cool"

    @property
    def worst(self) -> float:
        """How far the worst value is from good: 0 to 1, and 1 for one that is NaN or Inf."""
        if any(trace.num_broken for trace in self.traces):
            return 1.0
        return max((abs(s) for trace in self.traces for s in self._shades(trace)), default=0.0)

    @property
    def badness(self) -> float:
        """How bad the worst trace is on average over its blocks."""
        means = [sum(map(abs, s)) / len(s) for t in self.traces if (s := self._shades(t))]
        return max(means, default=0.0)

    def _shades(self, trace: Trace) -> list[float]:
        if self.shading is None or not self.has_bad_side:
            return []
        shades = [self.shading.shade(v) for v in trace.y if v is not None]
        return [1.0 if s is None else s for s in shades]

    @property
    def band(self) -> tuple[float, float] | None:
        """The good range; None where no side is bad."""
        return self.quantity.good_range if self.quantity else None

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the value axis, with each bound of the good range inside that is crossed."""
        values = [v for t in self.traces for v in t.drawable(log=self.log) if v is not None]
        low, high = self.band or (-inf, inf)
        bounds = [low] * any(v < low for v in values) + [high] * any(v > high for v in values)
        if not self.log:
            if (calm := calm_range(values)) is not None and not bounds:
                return calm
            low, high = min([*values, *bounds], default=0.0), max([*values, *bounds], default=1.0)
            margin = 0.06 * (high - low) or 0.5
            return low - margin, high + margin
        shown = [*values, *bounds] or [1.0]
        low, high = log10(min(shown)), log10(max(shown))
        margin = max(0.06 * (high - low), 0.1)
        return 10 ** max(low - margin, -307), 10 ** min(high + margin, 308)

    @property
    def ticks(self) -> list[Tick]:
        """Values to name at the value axis: whole decades, or round numbers."""
        low, high = self.limits
        values = _log_ticks(low, high) if self.log else round_numbers(low, high)
        return [(value, number(value)) for value in values]

    def heights(self) -> Callable[[float], float]:
        """A function that gives where a value lies between the limits: 0 at the lower, 1 at the upper."""
        low, high = self.limits
        if not self.log:
            return lambda value: (value - low) / (high - low)
        first, last = log10(low), log10(high)
        return lambda value: (log10(max(value, low)) - first) / (last - first)

    @property
    def x_limits(self) -> tuple[float, float]:
        """Ends of the axis of blocks or steps."""
        locations = [x for trace in self.traces for x in trace.x] or [0.0, 1.0]
        margin = max(0.5, 0.01 * (max(locations) - min(locations)))
        return min(locations) - margin, max(locations) + margin

    @property
    def x_ticks(self) -> list[Tick]:
        """Places to name: blocks by their names, steps by their numbers."""
        longest = max(self.traces, key=lambda trace: len(trace.x))
        if not longest.names:
            low, high = self.x_limits
            return [(x, number(x)) for x in round_numbers(max(0.0, low), high) if x == int(x)]
        last = len(longest.x) - 1
        count = min(last, _MOST_TICKS)
        locations = sorted({round(at * last / count) for at in range(count + 1)}) if count else [0]
        return [(longest.x[at], longest.names[at]) for at in locations]


def columns_of(report: Report) -> dict[str, tuple[Number, ...]]:
    """Every column by `measurement.column`, one value per block of the report."""
    return {
        f"{measurement.name}.{column}": _align(measurement, column, report)
        for measurement in report.measurements
        for column in measurement.columns
    }


def depth_panels(states: States) -> list[Panel]:
    """A panel for every numeric column of any of the states, each state a trace, on one scale."""
    columns = [columns_of(report) for _, report in states]
    same = all(report.blocks == states[0][1].blocks for _, report in states)
    marks = _transitions(states[0][1].blocks) if same else []
    panels = []
    for key in dict.fromkeys(key for one in columns for key in one):
        values = [tuple(map(_as_float, one[key])) if key in one else () for one in columns]
        if any(v is not None for one in values for v in one):
            panels.append(_depth_panel(quantity_of(key), states, values, marks))
    return panels


def main_panels(panels: Sequence[Panel]) -> list[Panel]:
    """Those whose quantity is a main one; all but settings where none is."""
    main = [panel for panel in panels if panel.quantity and panel.quantity.role == "main"]
    return main or [p for p in panels if p.quantity and p.quantity.role != "setting"]


def decisive_panel(panels: Sequence[Panel], key: str = "") -> Panel | None:
    """The panel of this key; else the worst main one of this measurement; else the worst of all.

    None where none has a bad side.
    """
    bad = [panel for panel in panels if panel.has_bad_side]
    named = [panel for panel in bad if panel.key == key]
    of_measurement = [p for p in main_panels(bad) if p.key.partition(".")[0] == key]
    chosen = named or of_measurement or main_panels(bad)
    return max(chosen, key=lambda panel: panel.badness, default=None)


def panel_named(report: Report, name: str = "") -> Panel:
    """The panel of a key, a label or some words of them; without a name the decisive one.

    Raises:
        UnknownName: there is none.
        UsageError: nothing was measured.
    """
    panels = [*depth_panels(report.moments), *curve_panels(report.moments)]
    if not panels:
        raise UsageError("There is nothing to plot: nothing was measured.")
    if not name:
        return decisive_panel(panels, report.decisive) or panels[0]
    exact = [p for p in panels if name in (p.key, p.title, p.key.rpartition(".")[2])]
    wanted = set(name.lower().replace(".", " ").replace("_", " ").split())
    # of several that have all the words, the one with the fewest others
    alike = [p for p in panels if wanted <= _text(p)]
    result = exact or sorted(alike, key=lambda panel: len(_text(panel)))
    if len(wanted) == 1 and not exact and len({p.title for p in alike}) > 1:
        titles = ", ".join(dict.fromkeys(p.key or p.title for p in alike))
        raise UsageError(f"{name!r} may be any of {titles}; name one of them.")
    if not result:
        raise UnknownName("quantity", name, [p.key or p.title for p in panels])
    return result[0]


def _text(panel: Panel) -> set[str]:
    text = f"{panel.key} {panel.title}".lower().replace(".", " ").replace("_", " ")
    return {*text.split(), *(word.removesuffix("s") for word in text.split())}


def curve_panels(states: States) -> list[Panel]:
    """A panel for each training curve, each state a trace."""
    names = dict.fromkeys(name for _, report in states for name in report.curves)
    panels = []
    for curve in names:
        traces = [
            curve_trace(name, at, report.curves[curve])
            for at, (name, report) in enumerate(states)
            if curve in report.curves
        ]
        panels.append(Panel(title=curve, traces=traces))
    return panels


def curve_trace(name: str, color: int, curve: Curve) -> Trace:
    """Pairs of step and value as a trace."""
    return Trace(
        name=name,
        color=color,
        x=[float(step) for step, _ in curve],
        y=[None if value is None else float(value) for _, value in curve],
    )


def calm_range(values: Sequence[float]) -> tuple[float, float] | None:
    """Ends of a linear axis that would else blow up a small difference; None where it would not.

    Values that differ by less than half of their size are shown from zero on, so that 0.976 beside
    0.986 looks like what it is.

    Examples:
        >>> calm_range([0.976, 0.986])
        (0.0, 1.0846)
        >>> calm_range([0.0, 0.0])
        (0.0, 1.0)
        >>> calm_range([0.1, 0.9]) is None
        True
    """
    if not values:
        return None
    low, high = min(values), max(values)
    size = max(abs(low), abs(high))
    if size == 0:
        return (0.0, 1.0)  # none below zero: of fractions and counts nobody expects any
    if high - low >= 0.5 * size:
        return None
    return (0.0, float(f"{1.1 * high:.12g}")) if high > 0 else (float(f"{1.1 * low:.12g}"), 0.0)


def round_numbers(low: float, high: float) -> list[float]:
    """Round numbers between two ends, about five of them.

    Examples:
        >>> round_numbers(0.0, 1.0846)
        [0.0, 0.5, 1.0]
        >>> round_numbers(-0.5, 28.5)
        [0.0, 10.0, 20.0]
    """
    raw = (high - low) / (_MOST_TICKS - 1)
    unit = 10.0 ** floor(log10(raw)) if raw > 0 and isfinite(raw) else 1.0
    step = next((m * unit for m in (1, 2, 5) if m * unit >= raw), 10 * unit)
    return [round(i * step, 12) for i in range(ceil(low / step), floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = log10(low), log10(high)
    if last - first > 2:
        step = ceil((last - first) / _MOST_TICKS)
        return [10.0**e for e in range(ceil(first / step) * step, floor(last) + 1, step)]
    finer = [m * 10.0**e for e in range(floor(first), ceil(last) + 1) for m in (1, 2, 5)]
    return [value for value in finer if low <= value <= high]


def _depth_panel(
    known: Quantity,
    states: States,
    values: Sequence[tuple[float | None, ...]],
    marks: Sequence[float],
) -> Panel:
    every = [v for one in values for v in one]
    finite = [v for v in every if v is not None and isfinite(v)]
    shades = shading(known, every)
    traces = [
        Trace(
            name=name,
            color=at,
            x=[float(block.index) for block in report.blocks],
            y=values[at],
            names=[block.label for block in report.blocks],
            shades=[shade_class(v, shades) for v in values[at]],
        )
        for at, (name, report) in enumerate(states)
        if any(v is not None for v in values[at])
    ]
    positive = [v for v in finite if v > 0]
    # on less than a decade a logarithmic axis shows nothing more
    log = logarithmic(known, finite) and max(positive) >= 10 * min(positive)
    return Panel(
        title=known.label,
        axis="block",
        log=log,
        traces=traces,
        marks=marks,
        quantity=known,
        shading=shades,
    )


def _align(measurement: Measurement, column: str, report: Report) -> tuple[Number, ...]:
    values = measurement.columns[column]
    if measurement.blocks == report.blocks:
        return values
    at: Mapping[str, Number] = {
        block.label: value for block, value in zip(measurement.blocks, values, strict=True)
    }
    return tuple(at.get(block.label) for block in report.blocks)


def _as_float(value: Number) -> float | None:
    # a truth value is not a quantity: it stands in the table, not in a strip
    return None if value is None or isinstance(value, (bool, str)) else float(value)


def _transitions(blocks: Sequence[Block]) -> list[float]:
    result = [float(block.index) for block in blocks if block.changes_dimension]
    return result if len(result) <= _MOST_MARKS else []
