"""What the plots show, whoever draws them: a panel a quantity, a line a network or moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from bathyscope.core.records import Block
from bathyscope.report.record import Curve, Report
from bathyscope.report.series import main_keys, series_of
from bathyscope.report.shading import logarithmic

_MOST_TICKS = 12  # more transitions than this would hide the curves


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve of a panel; None and values that are not finite are gaps."""

    name: str
    colour: int
    x: Sequence[float]
    y: Sequence[float | None]
    text: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes: a title and its curves."""

    title: str
    log: bool
    lines: Sequence[Line]
    marks: Sequence[float] = ()


def depth_panels(named: Sequence[tuple[str, Report]]) -> list[Panel]:
    """A panel a main quantity, a curve a report."""
    found = [(name, report, series_of(report)) for name, report in named]
    panels = []
    for key in main_keys(*(report for _, report in named)):
        lines = [
            Line(
                name=name,
                colour=at,
                x=[float(block.index) for block in report.blocks],
                y=series[key].values,
                text=[block.label for block in report.blocks],
            )
            for at, (name, report, series) in enumerate(found)
            if key in series
        ]
        known = next(series[key].quantity for _, _, series in found if key in series)
        finite = [v for line in lines for v in line.y if v is not None and isfinite(v)]
        # on less than a decade a logarithmic axis says nothing more
        log = logarithmic(known, finite) and _decade(finite)
        marks = _transitions(named[0][1].blocks) if len(named) == 1 or _same(named) else ()
        panels.append(Panel(title=known.label, log=log, lines=lines, marks=marks))
    return panels


def curve_panels(named: Sequence[tuple[str, Report]]) -> list[Panel]:
    """A panel a training curve, a line a report."""
    names = dict.fromkeys(name for _, report in named for name in report.curves)
    return [
        Panel(
            title=curve,
            log=False,
            lines=[
                _curve_line(name, at, report.curves[curve])
                for at, (name, report) in enumerate(named)
                if curve in report.curves
            ],
        )
        for curve in names
    ]


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
        return (0.0, 1.0)  # none below zero: of shares and counts nobody expects any
    if high - low >= 0.5 * size:
        return None
    return (0.0, round(1.1 * high, 12)) if high > 0 else (round(1.1 * low, 12), 0.0)


def _curve_line(name: str, colour: int, curve: Curve) -> Line:
    x = [float(step) for step, _ in curve]
    y = [None if value is None else float(value) for _, value in curve]
    return Line(name=name, colour=colour, x=x, y=y)


def _transitions(blocks: Sequence[Block]) -> list[float]:
    found = [float(block.index) for block in blocks if block.changes_dimension]
    return found if len(found) <= _MOST_TICKS else []


def _decade(finite: Sequence[float]) -> bool:
    positive = [v for v in finite if v > 0]
    return bool(positive) and max(positive) >= 10 * min(positive)


def _same(named: Sequence[tuple[str, Report]]) -> bool:
    return all(report.blocks == named[0][1].blocks for _, report in named)
