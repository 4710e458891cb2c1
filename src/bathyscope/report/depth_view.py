"""Where in the depth of a network it is bad: strips of characters under a ruler of blocks.

Quantities that are good at every block are named in one line; the others get a strip each.
"""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bathyscope.report.depth_strip import Cell, Glyphs, marks, ruler, strip
from bathyscope.report.moments import moments
from bathyscope.report.numbers import number
from bathyscope.report.record import Report
from bathyscope.report.series import Series, main_keys, series_of
from bathyscope.report.shading import Shading, shading

STYLES = {"clean": "bold green", "note": "cyan", "warning": "bold yellow", "problem": "bold red"}
_MOST_CELLS = 120
_VISIBLE = 1 / 8  # the least shade that raises a character above the lowest

Rows = list[tuple[str, Series | None]]


def show_depth(report: Report, console: Console, *, glyphs: Glyphs) -> None:
    """Print a ruler of the blocks, the places of the findings, and a strip a quantity."""
    states = [(label, series_of(state)) for label, state in moments(report)]
    keys = [key for key in main_keys(report) if _shading(key, states).family != "cool"]
    bad = [key for key in keys if _worst(key, states) >= _VISIBLE]
    rows = _rows(bad, states)
    labels = [report.extent, "findings", *(name for name, _ in rows)]
    ranges = [short_range(series) for _, series in rows if series] + [_span(report)]
    room = console.width - max(map(len, labels)) - max(map(len, ranges)) - 2
    width = min(_MOST_CELLS, max(10, room))

    grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    for style in ("", "", "dim"):
        grid.add_column(no_wrap=True, style=style)
    line = ruler(report.blocks, width=width, glyphs=glyphs)
    grid.add_row(Text(labels[0], style="dim"), Text(line, style="dim"), _span(report))
    if any(finding.blocks for finding in report.findings):
        grid.add_row("findings", _mark_line(report, width, glyphs), "")
    for name, series in rows:
        drawn = strip_line(series, width, glyphs) if series else Text()
        grid.add_row(Text(name), drawn, short_range(series) if series else "")
    console.print(grid)
    good = [states[-1][1][key] for key in keys if key not in bad and key in states[-1][1]]
    if good:
        told = ", ".join(f"{series.quantity.label} {short_range(series)}" for series in good)
        console.print(Text.assemble(("good at every block: ", "green"), (told, "dim")))
    console.print(Text(_legend(report, rows, glyphs), style="dim"))


def _rows(keys: list[str], states: list[tuple[str, dict[str, Series]]]) -> Rows:
    """A strip a quantity, or its name and a strip a state."""
    rows: Rows = []
    for key in keys:
        found = [(label, series[key]) for label, series in states if key in series]
        name = found[0][1].quantity.label
        if len(states) == 1:
            rows.append((name, found[0][1]))
        else:
            rows.append((name, None))
            rows += [(f"  {label}", series) for label, series in found]
    return rows


def _shading(key: str, states: list[tuple[str, dict[str, Series]]]) -> Shading:
    found = [series[key] for _, series in states if key in series]
    return shading(found[0].quantity, [v for series in found for v in series.values])


def _worst(key: str, states: list[tuple[str, dict[str, Series]]]) -> float:
    found: list[Mapping[str, Series]] = [series for _, series in states if key in series]
    if any(_num_broken(series[key]) for series in found):
        return 1.0
    shade = _shading(key, states).shade
    shades = [shade(v) for series in found for v in series[key].values]
    return max((abs(s) for s in shades if s is not None), default=0.0)


def _num_broken(series: Series) -> int:
    return sum(v is not None for v in series.values) - len(series.finite)


def strip_line(series: Series, width: int, glyphs: Glyphs) -> Text:
    """A quantity over depth as coloured characters."""
    text = Text()
    shades = shading(series.quantity, series.values)
    for cell in strip(series.values, shading=shades, width=width, glyphs=glyphs):
        text.append(cell.character, style=_style(cell))
    return text


def _style(cell: Cell) -> str:
    if not cell.finite:
        return "bold magenta"
    if cell.shade is None:
        return "dim"
    if cell.shade <= -_VISIBLE:  # below the target: vanishing rather than exploding
        return "blue"
    return "green" if cell.shade < _VISIBLE else "yellow" if cell.shade < 0.75 else "red"


def short_range(series: Series) -> str:
    """Least and greatest finite value in a few characters."""
    finite = series.finite
    if not finite:
        return "none finite"
    low, high = number(min(finite), digits=2), number(max(finite), digits=2)
    return low if low == high else f"{low} to {high}"


def _span(report: Report) -> str:
    trunk = [block.index for block in report.blocks if block.part == "trunk"]
    return f"{trunk[0]} to {trunk[-1]}" if trunk else ""


def _mark_line(report: Report, width: int, glyphs: Glyphs) -> Text:
    text = Text()
    for severity in marks(report.blocks, report.findings, width=width):
        name = str(severity) if severity else ""
        text.append(glyphs.severities.get(name, " "), style=STYLES.get(name, ""))
    return text


def _legend(report: Report, rows: Rows, glyphs: Glyphs) -> str:
    parts = []
    if rows:
        parts.append(f"{glyphs.levels[0]} good {glyphs.levels[-1]} bad (worst of each cell)")
    if any(series and _num_broken(series) for _, series in rows):
        parts.append(f"{glyphs.not_finite} not finite")
    if any(block.changes_dimension for block in report.blocks):
        parts.append(f"{glyphs.tick} changes dimension")
    return "  ".join(parts)
