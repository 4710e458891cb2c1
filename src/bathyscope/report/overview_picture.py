"""Several networks as one picture that fits a screen: verdict, strip over depth, loss, outcome."""

from collections.abc import Sequence
from textwrap import fill

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from bathyscope.report.numbers import range_of
from bathyscope.report.overview import Overview, OverviewRow
from bathyscope.report.palette import LIGHT, light_colour
from bathyscope.report.panels import Line, Panel
from bathyscope.report.shading import shade_class
from bathyscope.report.sheet import Sheet, draw_panel

_MARGIN = 0.35
_TEXT, _STRIP, _CURVE = 3.1, 3.6, 2.7
"""Widths of the columns in inches."""

_GAP = 0.35
_LINE = 0.19
_LEAST = 1.2  # height of a row
_CHARACTERS = 46  # of the text's column


def draw_overview(seen: Overview) -> Figure:
    """The figure: a row a network."""
    told = [_paragraphs(row) for row in seen.rows]
    heights = [
        max(_LEAST, 0.55 + _LINE * sum(t.count("\n") + 1 for t, _ in lines)) for lines in told
    ]
    sheet = Sheet(_MARGIN + 0.3 + sum(heights))
    y = _MARGIN
    at_strip, at_curve = _MARGIN + _TEXT + _GAP, _MARGIN + _TEXT + _STRIP + 2.2 * _GAP
    soft = {"size": 8.5, "color": LIGHT["soft"]}
    if seen.label:
        when = next((row.when for row in seen.rows if row.when), "")
        sheet.text(at_strip, y, f"{seen.label} over depth" + f", {when}" * bool(when), **soft)
    if any(row.curve for row in seen.rows):
        sheet.text(at_curve, y, "training loss over the steps", **soft)
    y += 0.3
    highest = _highest(seen.rows)
    for row, lines, height in zip(seen.rows, told, heights, strict=True):
        _draw_text(sheet, row, lines, y)
        _draw_strip(sheet, seen, row, at_strip, y)
        if row.curve:
            axes = sheet.axes(at_curve, y - 0.05, _CURVE, _LEAST - 0.45)
            draw_panel(axes, _panel(row))
            axes.set_ylim(0, highest)
        y += height
    return sheet.figure


def _paragraphs(row: OverviewRow) -> list[tuple[str, str]]:
    """The paragraphs under the name, each with its colour."""
    lines: list[tuple[str, str]] = [
        (fill(f"{row.verdict.level}: {row.verdict.sentence}", _CHARACTERS), row.verdict.level)
    ]
    if row.forecast is not None:
        words = f"Forecast: {row.forecast.verdict}, {row.forecast.chance} to train."
        lines.append((fill(words, _CHARACTERS), "ink"))
    if row.outcome:
        lines.append((fill(row.outcome, _CHARACTERS), "ink"))
    return lines


def _draw_text(sheet: Sheet, row: OverviewRow, lines: Sequence[tuple[str, str]], y: float) -> None:
    sheet.text(_MARGIN, y, row.title, weight="bold", size=11)
    y += 0.14
    for text, colour in lines:
        sheet.text(_MARGIN, y, text, va="top", size=8.5, color=LIGHT[colour], linespacing=1.35)
        y += _LINE * (text.count("\n") + 1)


def _draw_strip(sheet: Sheet, seen: Overview, row: OverviewRow, x: float, y: float) -> None:
    if row.series is None or seen.shading is None:
        return
    classes = [shade_class(v, seen.shading) for v in row.series.values]
    axes = sheet.axes(x, y - 0.05, _STRIP, 0.42)
    axes.set_axis_off()
    colours = [to_rgb(light_colour(c)) if c else (1.0, 1.0, 1.0) for c in classes]
    axes.imshow([colours], aspect="auto", interpolation="nearest")
    sheet.text(x, y + 0.5, range_of(row.series.values), size=8.5, color=LIGHT["soft"])


def _panel(row: OverviewRow) -> Panel:
    line = Line(
        name=row.title,
        colour=0,
        x=[float(step) for step, _ in row.curve],
        y=[None if value is None else float(value) for _, value in row.curve],
    )
    return Panel(title="", log=False, lines=[line])


def _highest(rows: Sequence[OverviewRow]) -> float:
    """The top of the loss's axis, the same for all: a lone jump does not flatten the others."""
    values = sorted(float(v) for row in rows for _, v in row.curve if v is not None and v == v)
    return 1.15 * values[int(0.97 * (len(values) - 1))] if values else 1.0
