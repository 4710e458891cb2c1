"""Reports in a terminal: verdict, root causes, and where, in 80 columns or more.

Color repeats what the characters show already, so that nothing is lost without it.
"""

from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bathyscope.core.records import Finding, RootCause
from bathyscope.core.terminal import guarded
from bathyscope.foresight.record import Forecast
from bathyscope.report.findings import not_checked, setup
from bathyscope.report.numbers import amount, block_extent, number
from bathyscope.report.overview import Overview, OverviewRow
from bathyscope.report.panels import Panel, Trace, depth_panels, main_panels
from bathyscope.report.record import Judgment, Report
from bathyscope.report.strip_text import ASCII, UNICODE, Cell, Glyphs, marks, ruler, strip

STYLES = {"clean": "bold green", "note": "cyan", "warning": "bold yellow", "problem": "bold red"}
_FORECASTS = {
    "trains": STYLES["clean"],
    "lags": "yellow",
    "fails": STYLES["problem"],
    "undecided": "yellow",
}
_MOST_CELLS = 120
_MOST_CODES = 4
_WIDEST = 100  # a sentence longer than this is hard to read
_VISIBLE = 1 / 8  # the smallest shade that raises a character above the lowest


def show(report: Report, console: Console | None = None, *, most_findings: int = 10) -> None:
    """Print a report.

    Args:
        report: what to print.
        console: where to; the standard output if None. `NO_COLOR` and pipes are respected by rich.
        most_findings: how many root causes are printed in full; the others are counted.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> show(Report(title="mlp", verdict=clean, blocks=()), Console(no_color=True))
        mlp ✓ clean: Nothing found.
    """
    console = guarded(console)
    glyphs = ASCII if console.options.ascii_only else UNICODE
    console.print(Text(report.title, style="bold") + " " + _judgment(report.verdict, glyphs))
    if known := setup(report):
        console.print(Text(known, style="dim"))
    if report.before is not None:
        console.print(Text("before: ", style="dim") + _judgment(report.before.verdict, glyphs))
    if report.stages:
        console.print(_stages(report, glyphs))
    if report.forecast is not None:
        console.print(Text("forecast: ", style="dim") + Text(report.forecast.sentence()))
    if report.outcome:
        console.print(Text("outcome: ", style="dim") + Text(report.outcome))
    roots = report.roots
    for root in roots[:most_findings]:
        console.print()
        _show_finding(root, [block.label for block in report.blocks], console, glyphs)
    if len(roots) > most_findings:
        console.print(f"\nand {amount(len(roots) - most_findings, 'more finding')}")
    if report.blocks:
        console.print()
        _show_depth(report, console, glyphs)
    _show_checks(report, console)
    for note in report.notes:
        console.print(Text(f"\nNote: {note}", style="dim"))


def text_of(report: Report, *, width: int = 100) -> str:
    """What `show` prints, without colors.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> print(text_of(Report(title="mlp", verdict=clean, blocks=())))
        mlp ✓ clean: Nothing found.
    """
    written = StringIO()
    show(report, Console(file=written, width=width, no_color=True, force_terminal=False))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()).rstrip()


def show_overview(seen: Overview, console: Console | None = None) -> None:
    """Print a paragraph for each network.

    Args:
        seen: the networks.
        console: where to; the standard output if None.

    Examples:
        >>> from bathyscope.report import Judgment, Report, overview
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> report = Report(title="mlp", verdict=clean, blocks=(), outcome="It trains.")
        >>> show_overview(overview([report]), Console(no_color=True))  # doctest: +NORMALIZE_WHITESPACE
        mlp
          verdict  ✓ clean: Nothing found.
          outcome  It trains.
    """
    console = guarded(console)
    glyphs = ASCII if console.options.ascii_only else UNICODE
    for at, row in enumerate(seen.rows):
        if at:
            console.print()
        console.print(Text(row.title, style="bold"))
        _print_rows(_overview_rows(row, seen.panel, glyphs, room=console.width), console)


def _stages(report: Report, glyphs: Glyphs) -> Text:
    text = Text()
    for at, (label, stage) in enumerate(report.stages):
        level = stage.verdict.level
        text.append(f"{', then ' if at else ''}{label}: ", style="dim")
        text.append(f"{glyphs.severities[level]} {level}", style=STYLES[level])
    return text


def _judgment(verdict: Judgment, glyphs: Glyphs) -> Text:
    text = Text(f"{glyphs.severities[verdict.level]} {verdict.level}", style=STYLES[verdict.level])
    return text + Text(f": {verdict.sentence}", style="default not bold")


def _show_finding(root: RootCause, order: Sequence[str], console: Console, glyphs: Glyphs) -> None:
    severity = str(root.severity)
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(no_wrap=True, style=STYLES[severity])
    head.add_column(overflow="fold")
    title = Text.assemble((root.title, "bold"), (f"  {root.code}", "dim"))
    head.add_row(f"{glyphs.severities[severity]} {severity}", title)
    console.print(head)
    evidence = "  ".join(
        f"{name.replace('_', ' ')} {number(value)}"
        for name, value in root.evidence.items()
        if not (root.block_range and name in ("first_block", "last_block"))
    )
    seen = f", first seen after {amount(root.step, 'step')}" if root.step else ""
    rows = [
        ("cause", f"{root.cause}{seen}"),
        ("blocks", _extent(root, order) or "the network as a whole"),
        ("evidence", evidence),
        ("why", f"{root.why} ({root.source})" if root.source else root.why),
        ("remedy", root.remedy or "none known"),
        ("effects", ", ".join(_effect(effect, order) for effect in root.effects)),
    ]
    _print_rows([(name, Text(result)) for name, result in rows if result], console)


def _extent(finding: Finding, order: Sequence[str]) -> str:
    return finding.block_range or block_extent(finding.blocks, order)


def _effect(finding: Finding, order: Sequence[str]) -> str:
    blocks = _extent(finding, order)
    where = f" at {blocks}" if blocks else ""
    return f"{finding.code}{where}"


def _print_rows(rows: Sequence[tuple[str, Text]], console: Console) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold", max_width=_WIDEST)
    for name, result in rows:
        grid.add_row(name, result)  # Text: names from a model are not markup
    console.print(Padding(grid, (0, 0, 0, 2)))


def _show_checks(report: Report, console: Console) -> None:
    if report.passed:
        console.print(Text(f"\n{amount(len(report.passed), 'check')} passed", style="green"))
    for reason, codes in not_checked(report):
        result = ", ".join(codes) if len(codes) <= _MOST_CODES else amount(len(codes), "check")
        console.print(Text(f"not checked: {result} ({reason})", style="dim"))


def _show_depth(report: Report, console: Console, glyphs: Glyphs) -> None:
    """A ruler of the blocks, the places of the findings, and a strip for each bad quantity."""
    panels = [p for p in main_panels(depth_panels(report.moments)) if p.has_bad_side]
    bad = [panel for panel in panels if panel.worst >= _VISIBLE]
    rows = [row for panel in bad for row in _strip_rows(panel)]
    labels = [report.extent, "findings", *(name for name, _, _ in rows)]
    ranges = [short_range(trace) for _, trace, _ in rows if trace] + [_span(report)]
    room = console.width - max(map(len, labels)) - max(map(len, ranges)) - 2
    width = min(_MOST_CELLS, max(10, room))

    grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    for style in ("", "", "dim"):
        grid.add_column(no_wrap=True, style=style)
    line = ruler(report.blocks, width=width, glyphs=glyphs)
    grid.add_row(Text(labels[0], style="dim"), Text(line, style="dim"), _span(report))
    if any(finding.blocks for finding in report.findings):
        grid.add_row("findings", _mark_line(report, width, glyphs), "")
    for name, trace, panel in rows:
        drawn = _strip_line(panel, trace, width, glyphs) if trace else Text()
        grid.add_row(Text(name), drawn, short_range(trace) if trace else "")
    console.print(grid)
    good = [f"{p.title} {short_range(p.traces[-1])}" for p in panels if p not in bad]
    if good:
        console.print(Text.assemble(("good at every block: ", "green"), (", ".join(good), "dim")))
    console.print(Text(_legend(report, bad, glyphs), style="dim"))


def _strip_rows(panel: Panel) -> list[tuple[str, Trace | None, Panel]]:
    """The strip of a quantity, or its name and a strip for each moment."""
    if len(panel.traces) == 1 and not panel.traces[0].name:
        return [(panel.title, panel.traces[0], panel)]
    strips: list[tuple[str, Trace | None, Panel]] = [
        (f"  {trace.name}", trace, panel) for trace in panel.traces
    ]
    return [(panel.title, None, panel), *strips]


def _strip_line(panel: Panel, trace: Trace, width: int, glyphs: Glyphs) -> Text:
    """A quantity over depth as colored characters."""
    text = Text()
    if panel.shading is not None:
        for cell in strip(trace.y, shading=panel.shading, width=width, glyphs=glyphs):
            text.append(cell.character, style=cell_style(cell))
    return text


def cell_style(cell: Cell) -> str:
    """The color of a cell."""
    if not cell.finite:
        return "bold magenta"
    if cell.shade is None:
        return "dim"
    if cell.shade <= -_VISIBLE:  # below the target
        return "blue"
    return "green" if cell.shade < _VISIBLE else "yellow" if cell.shade < 0.75 else "red"


def short_range(trace: Trace) -> str:
    """Smallest and largest finite value in a few characters."""
    finite = trace.finite
    if not finite:
        return "none finite"
    low, high = number(min(finite), digits=2), number(max(finite), digits=2)
    return low if low == high else f"{low} to {high}"


def _span(report: Report) -> str:
    body = [block.index for block in report.blocks if block.part == "body"]
    return f"{body[0]} to {body[-1]}" if body else ""


def _mark_line(report: Report, width: int, glyphs: Glyphs) -> Text:
    text = Text()
    for severity in marks(report.blocks, report.findings, width=width):
        name = str(severity) if severity else ""
        text.append(glyphs.severities.get(name, " "), style=STYLES.get(name, ""))
    return text


def _legend(report: Report, shown: Sequence[Panel], glyphs: Glyphs) -> str:
    parts = []
    if shown:
        parts.append(f"{glyphs.levels[0]} good {glyphs.levels[-1]} bad (worst of each cell)")
    if any(trace.num_broken for panel in shown for trace in panel.traces):
        parts.append(f"{glyphs.non_finite} non-finite")
    if any(block.changes_dimension for block in report.blocks):
        parts.append(f"{glyphs.tick} changes dimension")
    return "  ".join(parts)


def _overview_rows(
    row: OverviewRow, panel: Panel | None, glyphs: Glyphs, *, room: int
) -> list[tuple[str, Text]]:
    rows = [("verdict", _judgment(row.verdict, glyphs))]
    if row.trace is not None and panel is not None:
        result = f"  {panel.title} {short_range(row.trace)}"
        width = max(10, min(60, room - 13 - len(result)))
        drawn = _strip_line(panel, row.trace, width, glyphs)
        rows.append(("by depth", drawn + Text(result, style="dim")))
    if row.forecast is not None:
        rows.append(("forecast", _forecast(row.forecast)))
    if row.outcome:
        rows.append(("outcome", Text(row.outcome)))
    return rows


def _forecast(forecast: Forecast) -> Text:
    kind = f" ({forecast.kind})" if forecast.kind else ""
    return Text(forecast.verdict, style=_FORECASTS[forecast.verdict]) + Text(
        f"{kind}: {forecast.chance} to train within {forecast.budget} steps, "
        f"after {amount(forecast.spent, 'step')} on a copy",
        style="default not bold",
    )
