"""Several networks in a terminal: what was found, forecast and seen over depth, and what came of it."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bathyscope.core.forecast import Forecast
from bathyscope.report.depth_strip import ASCII, UNICODE, Glyphs
from bathyscope.report.depth_view import STYLES, short_range, strip_line
from bathyscope.report.overview import Overview, OverviewRow

_WIDEST = 100  # a sentence longer than this is hard to read
_VERDICT_STYLES = {"trains": STYLES["clean"], "fails": STYLES["problem"], "undecided": "yellow"}


def show_overview(seen: Overview, console: Console | None = None) -> None:
    """Print a paragraph a network.

    Args:
        seen: the networks.
        console: where to; the standard output if None.

    Examples:
        >>> from bathyscope.report import Judgement, Report, overview
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> report = Report(title="mlp", verdict=clean, blocks=(), outcome="It trains.")
        >>> show_overview(overview([report]), Console(no_color=True))  # doctest: +NORMALIZE_WHITESPACE
        mlp
          found    ✓ clean: Nothing found.
          outcome  It trains.
    """
    console = console or Console()
    glyphs = ASCII if console.options.ascii_only else UNICODE
    for at, row in enumerate(seen.rows):
        if at:
            console.print()
        console.print(Text(row.title, style="bold"))
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold", max_width=_WIDEST)
        for name, told in _lines(row, seen.label, glyphs, room=console.width):
            grid.add_row(name, told)
        console.print(Padding(grid, (0, 0, 0, 2)))


def _lines(row: OverviewRow, label: str, glyphs: Glyphs, *, room: int) -> list[tuple[str, Text]]:
    level = row.verdict.level
    found = Text(f"{glyphs.severities[level]} {level}", style=STYLES[level])
    lines = [("found", found + Text(f": {row.verdict.sentence}", style="default not bold"))]
    if row.series is not None:
        told = f"  {label} {short_range(row.series)}"
        width = max(10, min(60, room - 13 - len(told)))
        strip = strip_line(row.series, width, glyphs)
        lines.append(("by depth", strip + Text(told, style="dim")))
    if row.forecast is not None:
        lines.append(("forecast", _forecast(row.forecast)))
    if row.outcome:
        lines.append(("outcome", Text(row.outcome)))
    return lines


def _forecast(forecast: Forecast) -> Text:
    kind = f" ({forecast.kind})" if forecast.kind else ""
    return Text(forecast.verdict, style=_VERDICT_STYLES[forecast.verdict]) + Text(
        f"{kind}: {forecast.chance} to train within {forecast.budget} steps, "
        f"seen after {forecast.spent}",
        style="default not bold",
    )
