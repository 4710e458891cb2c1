"""Panels as scalable graphics: strips and curves, drawn once, stretched and zoomed by the browser.

One unit across is one block or step. A curve's height runs from 0 at the top to 100; the viewer's
style sheet keeps strokes as thin as they are, however the drawing is stretched. Zooming is another
`viewBox`, so that nothing is drawn again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from bathyscope.report.numbers import amount, number
from bathyscope.report.palette import LINES
from bathyscope.report.panels import Panel, Trace

_MOST_DOTS = 60

Top = Callable[[float], float]
"""Percent from the top at which a value lies."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A strip of one unit per block: a path for each class, and the number of blocks."""

    paths: Sequence[tuple[str, str]]
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTrace:
    """A trace with its strip, its curve, and what is reported under the pointer."""

    name: str
    locations: str
    result: str
    span: str
    spoken: str
    has_gaps: bool
    strip: Drawing
    line: str
    path: str
    dots: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPanel:
    """A panel as the page shows it; heights are percent from the top, places percent from the left."""

    key: str
    title: str
    label: str
    what: str
    why: str
    view: str
    spoken: str
    traces: Sequence[DrawnTrace]
    y_ticks: Sequence[tuple[float, str]]
    x_ticks: Sequence[tuple[float, str]]
    band: tuple[float, float] | None
    thresholds: Sequence[tuple[float, str]]
    marks: Sequence[float]
    broken: Sequence[tuple[float, float]]
    axis: str


def strip(classes: Sequence[str]) -> Drawing:
    """A strip of these classes, runs of one class merged.

    Examples:
        >>> strip(["w0", "w0", "nf", ""]).paths
        [('w0', 'M0 0h2v1h-2z'), ('nf', 'M2 0h1v1h-1z')]
    """
    paths: dict[str, str] = {}
    start = 0
    for end in range(1, len(classes) + 1):
        if end == len(classes) or classes[end] != classes[start]:
            width = end - start
            if classes[start]:
                run = f"M{start} 0h{width}v1h-{width}z"
                paths[classes[start]] = paths.get(classes[start], "") + run
            start = end
    return Drawing(list(paths.items()), max(1, len(classes)))


def drawn_panel(panel: Panel, *, locations: str = "blocks") -> DrawnPanel:
    """A panel as paths and ticks.

    Args:
        panel: what is shown.
        locations: prefix of the page's lists of blocks or steps, one for each color of a trace.
    """
    low, high = panel.x_limits
    heights = panel.heights()

    def top(value: float) -> float:
        return round(100 * (1 - heights(value)), 2)

    bottom, ceiling = panel.limits
    bounds = [b for b in panel.band or () if bottom < b < ceiling]
    ends = f"over {amount(max(len(t.x) for t in panel.traces), panel.axis)}"
    result = "; ".join(f"{trace.name} {trace.span}".strip() for trace in panel.traces)
    return DrawnPanel(
        key=panel.key,
        title=panel.title,
        label=panel.label,
        what=panel.quantity.description if panel.quantity else "",
        why=panel.quantity.why if panel.quantity else "",
        view=f"{low:.6g} 0 {high - low:.6g} 100",
        spoken=f"{panel.title} {ends}: {result}",
        traces=[_drawn_trace(panel, trace, top, locations) for trace in panel.traces],
        y_ticks=[(top(value), text) for value, text in panel.ticks],
        x_ticks=[(100 * (x - low) / (high - low), text) for x, text in panel.x_ticks],
        band=_band(panel, top),
        thresholds=[(top(bound), _threshold(panel, bound)) for bound in bounds],
        marks=panel.marks,
        broken=[run for trace in panel.traces for run in broken_runs(trace)],
        axis=panel.axis,
    )


def broken_runs(trace: Trace) -> list[tuple[float, float]]:
    """Where a run of values that are NaN or Inf begins, and how wide it is."""
    locations = [
        x for x, y in zip(trace.x, trace.y, strict=True) if y is not None and not isfinite(y)
    ]
    runs: list[list[float]] = []
    for x in locations:
        if runs and x - runs[-1][1] <= 1:
            runs[-1][1] = x
        else:
            runs.append([x, x])
    return [(first - 0.5, last - first + 1) for first, last in runs]


def _drawn_trace(panel: Panel, trace: Trace, top: Top, locations: str) -> DrawnTrace:
    shown = trace.drawable(log=panel.log)
    points = [
        None if y is None else f"{x:.6g} {top(y):.4g}" for x, y in zip(trace.x, shown, strict=True)
    ]
    return DrawnTrace(
        name=trace.name,
        locations=f"{locations}-{trace.color}",
        result="|".join(map(number, trace.y)),
        span=trace.span,
        spoken=f"{panel.title} {trace.name}: {trace.span} over {amount(len(trace.y), panel.axis)}",
        has_gaps=None in trace.y,
        strip=strip(trace.shades),
        line=f"l{trace.color % len(LINES)}",
        path=curve(points),
        dots="".join(f"M{p}h0" for p in points if p) if len(points) <= _MOST_DOTS else "",
    )


def curve(points: Sequence[str | None]) -> str:
    """A path through the points, broken at gaps.

    Examples:
        >>> curve(["0 9", "1 8", None, "3 7"])
        'M0 9 1 8M3 7'
    """
    path, pen_up = "", True
    for point in points:
        if point is not None:
            path += f"{'M' if pen_up else ' '}{point}"
        pen_up = point is None
    return path


def _threshold(panel: Panel, bound: float) -> str:
    assert panel.band is not None
    return f"{'below' if bound == panel.band[1] else 'above'} {number(bound)}"


def _band(panel: Panel, top: Top) -> tuple[float, float] | None:
    """Top and height of the good range, cut at the limits."""
    if panel.band is None:
        return None
    low, high = panel.limits
    start, end = (top(min(max(bound, low), high)) for bound in reversed(panel.band))
    return (start, round(end - start, 2))
