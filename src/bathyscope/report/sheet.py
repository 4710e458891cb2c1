"""One sheet with matplotlib: headline, strips and panels, laid out in inches from the top."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bathyscope.report.numbers import number, range_of
from bathyscope.report.palette import LIGHT, LINES, light_colour
from bathyscope.report.panels import Panel, calm_range
from bathyscope.report.record import Judgement, Report
from bathyscope.report.series import main_keys, series_of
from bathyscope.report.shading import shade_class, shading

_WIDTH = 11.0
_MARGIN = 0.35
_LINE = 0.24
_PANEL = 1.75
_DPI = 150
_WRAP = 110  # characters of a sentence on one line
_KEY = (
    *(("w0", "good"), ("w6", "bad"), ("b6", "bad: too small")),
    *(("c6", "large"), ("nf", "not finite")),
)

Headline = Sequence[tuple[str, Judgement]]
Strips = list[tuple[str, list[tuple[str, list[str], str]]]]
"""For each quantity its label, and for each state a name, the shades of the blocks, the range."""


@dataclass(slots=True)
class Sheet:
    """A figure of known height, addressed in inches from its upper left corner."""

    height: float
    figure: Figure = field(init=False)

    def __post_init__(self) -> None:
        self.figure = Figure(figsize=(_WIDTH, self.height), dpi=_DPI, facecolor="white")
        FigureCanvasAgg(self.figure)

    def text(self, x: float, y: float, text: str, **style: object) -> None:
        """Text centred at the height y; a model's names are no formulas."""
        style = {"size": 9, "color": LIGHT["ink"], "va": "center", "parse_math": False, **style}
        self.figure.text(x / _WIDTH, 1 - y / self.height, text, None, **style)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Axes whose upper left corner is at x, y."""
        bottom = 1 - (y + height) / self.height
        return self.figure.add_axes((x / _WIDTH, bottom, width / _WIDTH, height / self.height))


def draw_sheet(
    headline: Headline, states: Sequence[tuple[str, Report]], panels: Sequence[Panel]
) -> Figure:
    """The figure: verdicts, strips of the main quantities of all states, curves."""
    strips = _strips(states)
    sentences = [fill(verdict.sentence, _WRAP) for _, verdict in headline]
    lines = sum(2.2 + sentence.count("\n") for sentence in sentences)
    lines += sum(len(rows) + (len(rows) > 1) for _, rows in strips) + 2
    num_rows = -(-len(panels) // 2)
    sheet = Sheet(2 * _MARGIN + _LINE * (lines + 1) + _PANEL * num_rows)
    y = _draw_headline(sheet, headline, sentences, _MARGIN)
    y = _draw_strips(sheet, strips, y) if strips else y
    _draw_panels(sheet, panels, y)
    return sheet.figure


def _strips(states: Sequence[tuple[str, Report]]) -> Strips:
    found = [(name, series_of(state)) for name, state in states]
    told: Strips = []
    for key in main_keys(*(state for _, state in states)):
        rows = [(name, series[key]) for name, series in found if key in series]
        known = rows[0][1].quantity
        shades = shading(known, [v for _, series in rows for v in series.values])
        shaded = [
            (name, [shade_class(v, shades) for v in series.values], range_of(series.values))
            for name, series in rows
        ]
        told.append((known.label, shaded))
    return told


def _draw_headline(sheet: Sheet, headline: Headline, sentences: Sequence[str], y: float) -> float:
    for (title, verdict), sentence in zip(headline, sentences, strict=True):
        sheet.text(_MARGIN, y, title, weight="bold", size=11)
        level = {"weight": "bold", "color": LIGHT[verdict.level]}
        sheet.text(_MARGIN, y + 0.15, verdict.level, va="top", **level)
        sheet.text(_MARGIN + 0.8, y + 0.15, sentence, va="top")
        y += _LINE * (2.2 + sentence.count("\n"))
    return y


def _draw_strips(sheet: Sheet, strips: Strips, y: float) -> float:
    for label, rows in strips:
        several = len(rows) > 1
        if several:
            sheet.text(_MARGIN, y, label)
            y += _LINE
        for name, classes, told in rows:
            style = {"color": LIGHT["soft"]} if several else {}
            sheet.text(_MARGIN + 0.15 * several, y, name if several else label, **style)
            colours = [to_rgb(light_colour(c)) if c else (1.0, 1.0, 1.0) for c in classes]
            axes = sheet.axes(2.6, y - 0.075, 6.0, 0.15)
            axes.set_axis_off()
            axes.imshow([colours], aspect="auto", interpolation="nearest")
            sheet.text(8.75, y, told, size=8, color=LIGHT["soft"])
            y += _LINE
    x = 2.6
    for shade, meaning in _KEY:
        sheet.text(x, y, "■", color=light_colour(shade))
        sheet.text(x + 0.15, y, meaning, size=8, color=LIGHT["soft"])
        x += 0.4 + 0.075 * len(meaning)
    return y + 1.5 * _LINE


def _draw_panels(sheet: Sheet, panels: Sequence[Panel], y: float) -> None:
    names = {line.name: line.colour for panel in panels for line in panel.lines}
    if len(names) > 1:
        x = 0.8
        for name, colour in names.items():
            sheet.text(x, y, "—", color=LINES[colour % len(LINES)], weight="bold")
            sheet.text(x + 0.22, y, name)
            x += 0.5 + 0.085 * len(name)
    y += _LINE
    for at, panel in enumerate(panels):
        row, column = divmod(at, 2)
        top = y + _PANEL * row
        sheet.text(0.8 + 5.3 * column, top, panel.title)
        draw_panel(sheet.axes(0.8 + 5.3 * column, top + 0.12, 4.55, _PANEL - 0.6), panel)


def draw_panel(axes: Axes, panel: Panel) -> None:
    """The lines of a panel, values that are not finite as bands."""
    for line in panel.lines:
        y = [v if _drawable(v, log=panel.log) else float("nan") for v in line.y]
        marker = "." if len(y) <= 60 else ""
        colour = LINES[line.colour % len(LINES)]
        axes.plot([*line.x], y, color=colour, linewidth=1.2, marker=marker, markersize=2.5)  # type: ignore[arg-type]
        for x, value in zip(line.x, line.y, strict=True):
            if value is not None and not isfinite(value):
                axes.axvspan(x - 0.5, x + 0.5, color=LIGHT["nf"], alpha=0.15, linewidth=0)
    for x in panel.marks:
        axes.axvline(x, color="#888", linewidth=0.7, linestyle=":", zorder=0)
    values = [v for line in panel.lines for v in line.y if v is not None and isfinite(v)]
    if not panel.log and (around := calm_range(values)) is not None:
        axes.set_ylim(*around)
    if panel.log:
        _logarithmic(axes, [v for line in panel.lines for v in line.y if _drawable(v, log=True)])  # type: ignore[misc]
    axes.grid(color=LIGHT["rule"], linewidth=0.5)
    axes.tick_params(which="both", length=0, labelsize=7.5, colors=LIGHT["soft"])
    axes.margins(x=0.01)
    for side in axes.spines.values():
        side.set_visible(False)


def _logarithmic(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis that names 1, 2 and 5 where whole decades would be too few."""
    axes.set_yscale("log")
    axes.yaxis.set_minor_formatter(NullFormatter())
    if max(values) < 100 * min(values):
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def _drawable(value: float | None, *, log: bool) -> bool:
    return value is not None and isfinite(value) and (value > 0 or not log)
