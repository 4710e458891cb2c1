import dataclasses
import io
import math
import re

import pytest
from rich.console import Console

from bathyscope.core.records import Block, Finding, Severity
from bathyscope.report import show
from bathyscope.report.shading import Shading
from bathyscope.report.strip_text import Cell, cells, marks, strip
from bathyscope.report.terminal import cell_style
from tests.report.specimens import blocks, clean, exploding, staged, treated


def printed(report, *, width=80, color=None, encoding="utf-8", **options) -> str:
    class File(io.StringIO):
        pass

    file = File()
    File.encoding = encoding
    console = Console(file=file, width=width, color_system=color, force_terminal=bool(color))
    show(report, console, **options)
    return file.getvalue()


@pytest.mark.parametrize("make", [clean, exploding, staged, treated])
@pytest.mark.parametrize("count", [1, 20, 110, 333])
def test_fits_80_columns_without_color(make, count):
    text = printed(make(count))
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in "".join(line for line in text.splitlines() if "▁" in line)


def test_the_verdict_is_first_and_findings_are_in_order():
    report = exploding(54)
    text = printed(report)
    assert text.startswith("preplain-164 ✗ problem: The gradient grows")
    locations = [text.index(finding.code) for finding in report.findings]
    assert locations == sorted(locations)
    assert "condition ∞" in text
    assert "none known" in text
    assert "Add identity shortcuts" in text


def test_color_adds_nothing_but_color():
    report = exploding(54)
    assert re.sub(r"\x1b\[[0-9;]*m", "", printed(report, color="truecolor")) == printed(report)


def test_states_are_told_in_the_order_of_time():
    assert "at the start: ✓ clean, then after 8 steps: ✗ problem" in printed(staged(54))
    text = printed(treated(54))
    assert text.index("✓ clean") < text.index("before: ✗ problem")


def test_nothing_measured_is_still_told():
    bare = dataclasses.replace(clean(3), measurements=())
    assert printed(bare).splitlines()[0].startswith("preresnet-164 ✓ clean")


def test_the_outcome_is_told():
    report = dataclasses.replace(clean(6), outcome="After 100 steps: accuracy 98 %.")
    assert "outcome: After 100 steps: accuracy 98 %." in printed(report)


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    color = r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;)[0-9;]*m"
    assert not re.search(color, printed(exploding(54), color="truecolor"))
    monkeypatch.delenv("NO_COLOR")
    assert re.search(color, printed(exploding(54), color="truecolor"))


def test_ascii_terminals_get_ascii_strips():
    text = printed(exploding(54), encoding="ascii")
    assert not set("▁▂▃▄▅▆▇█∞├┬✗▲") & set(text.replace("condition ∞", ""))


def test_names_from_the_model_are_no_markup():
    odd = Block(index=0, name="[red]x[/red]", end="x", kind="Linear")
    finding = Finding(
        code="odd",
        severity=Severity.NOTE,
        title="[bold]t[/bold]",
        blocks=("[red]x[/red]",),
        evidence={"[i]": "[/i]"},
        why="w",
        source="s",
    )
    report = dataclasses.replace(clean(1), title="[b]m", blocks=(odd,), findings=(finding,))
    text = printed(report)
    for said in ("[b]m", "[red]x[/red]", "[bold]t[/bold]", "[i] [/i]"):
        assert said in text


def test_long_lists_of_findings_are_counted():
    text = printed(exploding(54), most_findings=1)
    assert "and 3 more findings" in text
    assert "singular-representation" not in text


@pytest.mark.parametrize("count", [7, 54, 333])
def test_every_block_is_in_a_cell_and_the_worst_wins(count):
    covered = [i for members in cells(count, 40) for i in members]
    assert sorted(set(covered)) == list(range(count))
    shading = Shading(family="warm", log=True, start=1e2, end=1e6)
    for location in (0, count // 2, count - 1):
        values = [1.0] * count
        values[location] = 1e9
        assert "█" in "".join(c.character for c in strip(values, shading=shading, width=40))
        values[location] = math.nan
        assert "∞" in "".join(c.character for c in strip(values, shading=shading, width=40))


def test_the_most_severe_finding_marks_the_cell():
    body = blocks(100)
    note, problem = (
        Finding(
            code=s, severity=s, title=s, blocks=(body[at].label,), evidence={}, why="", source=""
        )
        for s, at in ((Severity.NOTE, 50), (Severity.PROBLEM, 51))
    )
    line = marks(body, [note, problem], width=20)
    assert line[10] == Severity.PROBLEM
    assert [s for s in line if s] == [Severity.PROBLEM]


RATIO = Shading(family="split", log=True, start=0.5, end=2.0, target=1.0)


def test_the_worst_of_a_cell_may_lie_below_the_target():
    """Among mild values above the target one that vanishes is shown, and at its full height."""
    (cell,) = strip([2.0, 1e-9, 3.0], shading=RATIO, width=1)
    assert (cell.character, cell.shade) == ("█", -1.0)
    (mild,) = strip([2.0, 1.0, 3.0], shading=RATIO, width=1)
    assert mild.character == "▁"


def test_a_cell_is_marked_by_the_most_severe_of_its_findings():
    grave, light = (
        dataclasses.replace(exploding(4).findings[0], severity=level, blocks=(blocks(4)[0].label,))
        for level in (Severity.PROBLEM, Severity.NOTE)
    )
    for order in ([grave, light], [light, grave]):
        assert marks(blocks(4), order, width=4)[0] is Severity.PROBLEM


def test_the_legend_tells_of_ticks_only_where_there_are_any():
    report = clean(12)
    assert "┬ changes dimension" in printed(report)
    level = tuple(dataclasses.replace(block, changes_dimension=False) for block in report.blocks)
    assert "changes dimension" not in printed(dataclasses.replace(report, blocks=level))


@pytest.mark.parametrize(
    ("shade", "color"),
    [(None, "dim"), (-0.5, "blue"), (0.0, "green"), (0.12, "green"), (0.5, "yellow"), (0.9, "red")],
)
def test_the_color_of_a_cell_tells_its_shade(shade, color):
    assert cell_style(Cell("x", shade)) == color
    assert cell_style(Cell("x", shade, finite=False)) == "bold magenta"
