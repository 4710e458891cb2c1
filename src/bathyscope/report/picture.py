"""Panels with matplotlib: one set of axes for a document, or a whole report on one sheet.

The sheet is laid out in inches from its upper left corner. The ending of a file decides on its form.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bathyscope.core.errors import UsageError
from bathyscope.report.overview import Overview, OverviewRow, overview
from bathyscope.report.palette import LIGHT, LINES, light_color
from bathyscope.report.panels import Panel, curve_panels, depth_panels, main_panels, panel_named
from bathyscope.report.record import Judgment, Report
from bathyscope.report.svg import broken_runs

_WIDTH, _MARGIN, _LINE, _PANEL, _DPI = 11.0, 0.35, 0.24, 1.95, 150
_WRAP = 110  # characters of a sentence on one line
_TEXT, _STRIP, _CURVE, _GAP, _LEAST = 3.1, 3.6, 2.7, 0.35, 1.2  # columns of an overview
_CHARACTERS = 46  # of the text's column
_KEY = (
    *(("w0", "good"), ("w6", "bad"), ("b6", "bad: too small")),
    *(("c6", "large"), ("nf", "NaN or Inf")),
)


def draw_panel(panel: Panel, axes: Axes, *, title: bool = True, bare: bool = False) -> Axes:
    """Curves with their good range, its thresholds, units and the names of the blocks.

    Args:
        panel: what to draw.
        axes: where to.
        title: whether the label stands above.
        bare: whether the names of blocks or steps are left out below.
    """
    for trace in panel.traces:
        y = [float("nan") if v is None else v for v in trace.drawable(log=panel.log)]
        marker = "." if len(y) <= 60 else ""
        color = LINES[trace.color % len(LINES)]
        axes.plot(
            list(trace.x),
            y,
            color=color,
            linewidth=1.2,
            marker=marker,
            markersize=3,
            label=trace.name,
        )
        for start, width in broken_runs(trace):
            axes.axvspan(start, start + width, color=LIGHT["nf"], alpha=0.15, linewidth=0)
    for x in panel.marks:
        axes.axvline(x, color="#888", linewidth=0.7, linestyle=":", zorder=0)
    low, high = panel.limits
    if panel.log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
    if panel.band is not None:
        bottom, top = (min(max(bound, low), high) for bound in panel.band)
        axes.axhspan(bottom, top, color=LIGHT["clean"], alpha=0.09, linewidth=0, zorder=0)
        for bound in (b for b in panel.band if low < b < high):
            axes.axhline(bound, color=LIGHT["clean"], linewidth=0.8, linestyle="--", zorder=1)
    axes.set_ylim(low, high)
    axes.set_xlim(*panel.x_limits)
    axes.set_yticks([value for value, _ in panel.ticks], [text for _, text in panel.ticks])
    locations = [] if bare else panel.x_ticks
    axes.set_xticks([x for x, _ in locations], [text for _, text in locations])
    for label in axes.get_xticklabels():
        label.set_parse_math(False)  # a model's names are not formulas
    axes.grid(axis="y", color=LIGHT["rule"], linewidth=0.5)
    axes.tick_params(which="both", length=0, labelsize=7.5, colors=LIGHT["soft"])
    for side in axes.spines.values():
        side.set_visible(False)
    if title:
        axes.set_title(panel.label, loc="left", size=9, color=LIGHT["ink"], parse_math=False)
        axes.set_xlabel(panel.axis, size=8, color=LIGHT["soft"])
    return axes


def plot_panel(panel: Panel, axes: Axes | None = None) -> Axes:
    """A panel on these axes, or on those of a new figure of pyplot's."""
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(figsize=(6.4, 3.2), layout="constrained")
    draw_panel(panel, axes)
    if len(panel.traces) > 1:
        axes.legend(frameon=False, fontsize=8)
    return axes


def plot_report(report: Report, name: str = "", axes: Axes | None = None) -> Axes:
    """The panel of a quantity or curve of a report; by default the decisive one.

    Raises:
        UnknownName: there is none of that name.
        UsageError: nothing was measured.
    """
    return plot_panel(panel_named(report, name), axes)


def to_picture(report: Report, path: str | PathLike[str]) -> None:
    """Draw a report on one sheet: verdict, strips of the main quantities at each moment, curves.

    Raises:
        UsageError: the file cannot be written.
    """
    states = report.moments
    headline = [(report.title, report.verdict)] if report.stages or not report.before else []
    headline += [(f"{report.title}, {label}", state.verdict) for label, state in states if label]
    save_figure(_sheet(headline, main_panels(depth_panels(states)), curve_panels(states)), path)


def comparison_picture(reports: Sequence[Report], path: str | PathLike[str]) -> None:
    """Draw several reports, a row each: verdict, forecast, outcome, one strip over depth, the loss.

    Raises:
        UsageError: there is no report to compare, or the file cannot be written.
    """
    save_figure(_overview_sheet(overview(reports)), path)


def save_figure(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure as its ending says: `.png`, `.svg` or `.pdf`.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        figure.savefig(path, format=Path(path).suffix.lower().lstrip(".") or "png")
    except OSError as error:
        raise UsageError(f"The picture {path} cannot be written: {error.strerror}.") from error


@dataclass(slots=True)
class Sheet:
    """A figure of known height, addressed in inches from its upper left corner."""

    height: float
    figure: Figure = field(init=False)

    def __post_init__(self) -> None:
        self.figure = Figure(figsize=(_WIDTH, self.height), dpi=_DPI, facecolor="white")
        FigureCanvasAgg(self.figure)

    def text(self, x: float, y: float, text: str, **style: object) -> None:
        """Text centered at the height y; a model's names are not formulas."""
        style = {"size": 9, "color": LIGHT["ink"], "va": "center", "parse_math": False, **style}
        self.figure.text(x / _WIDTH, 1 - y / self.height, text, None, **style)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Axes whose upper left corner is at x, y."""
        bottom = 1 - (y + height) / self.height
        return self.figure.add_axes((x / _WIDTH, bottom, width / _WIDTH, height / self.height))

    def strip(
        self, x: float, y: float, *, shades: Sequence[str], size: tuple[float, float]
    ) -> None:
        """A strip of shades."""
        axes = self.axes(x, y, *size)
        axes.set_axis_off()
        colors = [to_rgb(light_color(shade)) if shade else (1.0, 1.0, 1.0) for shade in shades]
        axes.imshow([colors], aspect="auto", interpolation="nearest")


def _sheet(
    headline: Sequence[tuple[str, Judgment]], depth: Sequence[Panel], curves: Sequence[Panel]
) -> Figure:
    sentences = [fill(verdict.sentence, _WRAP) for _, verdict in headline]
    lines = sum(2.2 + sentence.count("\n") for sentence in sentences)
    lines += sum(len(panel.traces) + (len(panel.traces) > 1) for panel in depth) + 2
    panels = [*depth, *curves]
    sheet = Sheet(2 * _MARGIN + _LINE * (lines + 1) + _PANEL * -(-len(panels) // 2))
    y = _MARGIN
    for (title, verdict), sentence in zip(headline, sentences, strict=True):
        sheet.text(_MARGIN, y, title, weight="bold", size=11)
        level = {"weight": "bold", "color": LIGHT[verdict.level]}
        sheet.text(_MARGIN, y + 0.15, verdict.level, va="top", **level)
        sheet.text(_MARGIN + 0.8, y + 0.15, sentence, va="top")
        y += _LINE * (2.2 + sentence.count("\n"))
    y = _draw_strips(sheet, depth, y) if depth else y
    _draw_curves(sheet, panels, y)
    return sheet.figure


def _draw_strips(sheet: Sheet, panels: Sequence[Panel], y: float) -> float:
    soft = {"size": 8, "color": LIGHT["soft"]}
    for panel in panels:
        several = len(panel.traces) > 1
        if several:
            sheet.text(_MARGIN, y, panel.title)
            y += _LINE
        for trace in panel.traces:
            style = {"color": LIGHT["soft"]} if several else {}
            name = trace.name if several else panel.title
            sheet.text(_MARGIN + 0.15 * several, y, name, **style)
            sheet.strip(2.7, y - 0.075, shades=trace.shades, size=(5.9, 0.15))
            sheet.text(8.75, y, trace.span, **soft)
            y += _LINE
    x = 2.7
    for shade, meaning in _KEY:
        sheet.text(x, y, "■", color=light_color(shade))
        sheet.text(x + 0.15, y, meaning, **soft)
        x += 0.4 + 0.075 * len(meaning)
    return y + 1.5 * _LINE


def _draw_curves(sheet: Sheet, panels: Sequence[Panel], y: float) -> None:
    names = {trace.name: trace.color for panel in panels for trace in panel.traces}
    if len(names) > 1:
        x = 0.8
        for name, color in names.items():
            sheet.text(x, y, "—", color=LINES[color % len(LINES)], weight="bold")
            sheet.text(x + 0.22, y, name)
            x += 0.5 + 0.085 * len(name)
    y += _LINE
    for at, panel in enumerate(panels):
        row, column = divmod(at, 2)
        top = y + _PANEL * row
        sheet.text(0.8 + 5.3 * column, top, panel.label)
        axes = sheet.axes(0.8 + 5.3 * column, top + 0.12, 4.55, _PANEL - 0.6)
        draw_panel(panel, axes, title=False)


def _overview_sheet(seen: Overview) -> Figure:
    result = [_paragraphs(row) for row in seen.rows]
    heights = [
        max(_LEAST, 0.55 + 0.19 * sum(t.count("\n") + 1 for t, _ in lines)) for lines in result
    ]
    sheet = Sheet(_MARGIN + 0.1 + sum(heights))  # nothing follows the last row's gap
    at_strip, at_curve = _MARGIN + _TEXT + _GAP, _MARGIN + _TEXT + _STRIP + 2.2 * _GAP
    soft = {"size": 8.5, "color": LIGHT["soft"]}
    y = _MARGIN
    if seen.panel is not None:
        when = next((row.when for row in seen.rows if row.when), "")
        sheet.text(at_strip, y, f"{seen.label} over depth" + f", {when}" * bool(when), **soft)
    if any(row.curve for row in seen.rows):
        sheet.text(at_curve, y, "training loss over the steps", **soft)
    y += 0.3
    highest = _highest(seen.rows)
    for row, lines, height in zip(seen.rows, result, heights, strict=True):
        _draw_paragraphs(sheet, row.title, lines, y)
        if row.trace is not None:
            sheet.strip(at_strip, y - 0.05, shades=row.trace.shades, size=(_STRIP, 0.42))
            sheet.text(at_strip, y + 0.5, row.trace.span, **soft)
        if row.curve is not None:
            axes = sheet.axes(at_curve, y - 0.05, _CURVE, _LEAST - 0.45)
            draw_panel(Panel(title="", traces=[row.curve]), axes, title=False)
            axes.set_ylim(0, highest)
        y += height
    return sheet.figure


def _paragraphs(row: OverviewRow) -> list[tuple[str, str]]:
    """The paragraphs under the name, each with its color."""
    lines: list[tuple[str, str]] = [
        (fill(f"{row.verdict.level}: {row.verdict.sentence}", _CHARACTERS), row.verdict.level)
    ]
    if row.forecast is not None:
        text = f"Forecast: {row.forecast.verdict}, {row.forecast.chance} to train."
        lines.append((fill(text, _CHARACTERS), "ink"))
    if row.outcome:
        lines.append((fill(row.outcome, _CHARACTERS), "ink"))
    return lines


def _draw_paragraphs(sheet: Sheet, title: str, lines: Sequence[tuple[str, str]], y: float) -> None:
    sheet.text(_MARGIN, y, title, weight="bold", size=11)
    y += 0.14
    for text, color in lines:
        sheet.text(_MARGIN, y, text, va="top", size=8.5, color=LIGHT[color], linespacing=1.35)
        y += 0.19 * (text.count("\n") + 1)


def _highest(rows: Sequence[OverviewRow]) -> float:
    """The top of the loss's axis, the same for all: a lone jump does not flatten the others."""
    values = sorted(v for row in rows if row.curve for v in row.curve.finite)
    return 1.15 * values[int(0.97 * (len(values) - 1))] if values else 1.0
