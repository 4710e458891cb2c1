"""A quantity over depth on one line of characters: where is it bad?

Many blocks fall into one cell when the line is short; the worst of them is shown, so that nothing
that matters is lost between two characters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from bathyscope.core.records import Block, Finding, Severity
from bathyscope.report.shading import Shading


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters of a strip."""

    levels: str
    non_finite: str
    missing: str
    rule: str
    tick: str
    ends: str
    severities: dict[str, str]


UNICODE = Glyphs(
    levels="▁▂▃▄▅▆▇█",
    non_finite="∞",
    missing="·",
    rule="─",
    tick="┬",
    ends="├┤",
    severities={"note": "·", "warning": "▲", "problem": "✗", "clean": "✓"},
)
ASCII = Glyphs(
    levels="_.-=+*%#",
    non_finite="!",
    missing=" ",
    rule="-",
    tick="+",
    ends="||",
    severities={"note": ".", "warning": "!", "problem": "X", "clean": "*"},
)


def cells(num_blocks: int, width: int) -> list[range]:
    """The blocks behind each character, first to last; a short net gets several characters per block.

    Examples:
        >>> cells(5, 3)
        [range(0, 1), range(1, 3), range(3, 5)]
        >>> cells(2, 5)
        [range(0, 1), range(0, 1), range(1, 2), range(1, 2)]
    """
    if num_blocks <= width:
        repeat = min(3, width // num_blocks) if num_blocks else 0
        return [range(i, i + 1) for i in range(num_blocks) for _ in range(repeat)]
    edges = [i * num_blocks // width for i in range(width + 1)]
    return [range(a, b) for a, b in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class Cell:
    """One character of a strip and its shade; `shade` is None where there is nothing to shade."""

    character: str
    shade: float | None
    finite: bool = True


def strip(
    values: Sequence[float | None], *, shading: Shading, width: int, glyphs: Glyphs = UNICODE
) -> list[Cell]:
    """The values as characters, the worst of each cell; height is distance from good.

    Examples:
        >>> condition = Shading(family="warm", log=True, start=1e2, end=1e6)
        >>> line = strip([10.0, 1e4, 1e6, float("inf"), None], shading=condition, width=5)
        >>> "".join(cell.character for cell in line)
        '▁▅█∞·'
    """
    return [
        _worst([values[i] for i in members], shading, glyphs)
        for members in cells(len(values), width)
    ]


def _worst(values: Sequence[float | None], shading: Shading, glyphs: Glyphs) -> Cell:
    measured = [v for v in values if v is not None]
    if not measured:
        return Cell(glyphs.missing, None)
    if not all(isfinite(v) for v in measured):
        return Cell(glyphs.non_finite, None, finite=False)
    shades = [s for s in map(shading.shade, measured) if s is not None]
    worst = max(shades, key=abs)
    level = min(len(glyphs.levels) - 1, int(abs(worst) * len(glyphs.levels)))
    return Cell(glyphs.levels[level], worst)


def marks(
    blocks: Sequence[Block], findings: Sequence[Finding], *, width: int
) -> list[Severity | None]:
    """For each cell, the highest severity among the findings that name one of its blocks."""
    worst: dict[str, Severity] = {}
    for finding in findings:
        for label in finding.blocks:
            known = worst.get(label)
            if known is None or finding.severity.rank > known.rank:
                worst[label] = finding.severity
    by_block = [worst.get(block.label) for block in blocks]
    return [
        max((s for i in members if (s := by_block[i])), key=lambda s: s.rank, default=None)
        for members in cells(len(blocks), width)
    ]


def ruler(blocks: Sequence[Block], *, width: int, glyphs: Glyphs = UNICODE) -> str:
    """A line with a tick where a block changes the dimension.

    Examples:
        >>> plain = Block(index=0, name="a", end="a", kind="Conv2d")
        >>> wider = Block(index=1, name="b", end="b", kind="Conv2d", changes_dimension=True)
        >>> ruler([plain, plain, wider, plain, plain], width=5)
        '├─┬─┤'
    """
    line, seen = [], range(0)
    for members in cells(len(blocks), width):
        changes = members != seen and any(blocks[i].changes_dimension for i in members)
        line.append(glyphs.tick if changes else glyphs.rule)
        seen = members
    for end, corner in zip((0, -1), glyphs.ends, strict=True):
        if line and line[end] == glyphs.rule:
            line[end] = corner
    return "".join(line)
