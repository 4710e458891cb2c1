"""A report in a terminal: the verdict, the ranked findings, and where, in 80 columns or more.

Colour repeats what the characters say already, so that nothing is lost without it.
"""

from io import StringIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bathyscope.core.forecast import Forecast
from bathyscope.core.records import Finding
from bathyscope.report.depth_strip import ASCII, UNICODE, Glyphs
from bathyscope.report.depth_view import STYLES, show_depth
from bathyscope.report.numbers import amount, name_list, number
from bathyscope.report.record import Judgement, Report


def show(report: Report, console: Console | None = None, *, most_findings: int = 10) -> None:
    """Print a report.

    Args:
        report: what to print.
        console: where to; the standard output if None. `NO_COLOR` and pipes are respected by rich.
        most_findings: how many findings are told in full; the others are counted.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> show(Report(title="mlp", verdict=clean, blocks=()), Console(no_color=True))
        mlp ✓ clean: Nothing found.
    """
    console = console or Console()
    glyphs = ASCII if console.options.ascii_only else UNICODE
    console.print(_headline(report, glyphs))
    if report.before is not None:
        console.print(_before(report.before, glyphs))
    if report.stages:
        console.print(_stages(report, glyphs))
    if report.forecast is not None:
        console.print(_forecast(report.forecast))
    if report.outcome:
        console.print(Text("outcome: ", style="dim") + Text(report.outcome))
    for finding in report.findings[:most_findings]:
        console.print()
        _show_finding(finding, console, glyphs)
    if len(report.findings) > most_findings:
        console.print(f"\nand {amount(len(report.findings) - most_findings, 'more finding')}")
    if report.blocks:
        console.print()
        show_depth(report, console, glyphs=glyphs)
    for note in report.notes:
        console.print(Text(f"\nNote: {note}", style="dim"))


def text_of(report: Report, *, width: int = 100) -> str:
    """What `show` prints, without colours.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> print(text_of(Report(title="mlp", verdict=clean, blocks=())))
        mlp ✓ clean: Nothing found.
    """
    written = StringIO()
    show(report, Console(file=written, width=width, no_color=True, force_terminal=False))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()).rstrip()


def _headline(report: Report, glyphs: Glyphs) -> Text:
    return Text(report.title, style="bold") + " " + _judgement(report.verdict, glyphs)


def _before(before: Report, glyphs: Glyphs) -> Text:
    return Text("before: ", style="dim") + _judgement(before.verdict, glyphs)


def _stages(report: Report, glyphs: Glyphs) -> Text:
    text = Text()
    for at, (label, stage) in enumerate(report.stages):
        level = stage.verdict.level
        text.append(f"{', then ' if at else ''}{label}: ", style="dim")
        text.append(f"{glyphs.severities[level]} {level}", style=STYLES[level])
    return text


def _forecast(forecast: Forecast) -> Text:
    return Text("forecast: ", style="dim") + Text(forecast.sentence())


def _judgement(verdict: Judgement, glyphs: Glyphs) -> Text:
    text = Text(f"{glyphs.severities[verdict.level]} {verdict.level}", style=STYLES[verdict.level])
    return text + Text(f": {verdict.sentence}", style="default not bold")


def _show_finding(finding: Finding, console: Console, glyphs: Glyphs) -> None:
    severity = str(finding.severity)
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(no_wrap=True, style=STYLES[severity])
    head.add_column(overflow="fold")
    title = Text.assemble((finding.title, "bold"), (f"  {finding.code}", "dim"))
    head.add_row(f"{glyphs.severities[severity]} {severity}", title)
    console.print(head)
    evidence = "  ".join(
        f"{name.replace('_', ' ')} {number(value)}" for name, value in finding.evidence.items()
    )
    seen = f", first seen after {amount(finding.step, 'step')}" if finding.step else ""
    rows = [
        ("cause", f"{finding.cause}{seen}"),
        ("blocks", name_list(finding.blocks) or "the network as a whole"),
        ("evidence", evidence),
        ("why", f"{finding.why} ({finding.source})" if finding.source else finding.why),
        ("remedy", finding.remedy or "none known"),
    ]
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, told in rows:
        if told:
            grid.add_row(name, Text(told))  # Text: names from a model are no markup
    console.print(Padding(grid, (0, 0, 0, 2)))
