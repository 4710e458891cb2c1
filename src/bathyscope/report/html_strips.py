"""Heat strips: one thin line a quantity across all blocks, as scalable graphics.

A strip is an SVG of one unit a block, stretched to the width of the page. Blocks of one shade form
one path, so that 333 blocks cost at most 20 elements.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.core.records import Block, Finding
from bathyscope.report.glossary import quantity
from bathyscope.report.html_text import embedded, escape, joined
from bathyscope.report.moments import moments
from bathyscope.report.numbers import counted, number, range_of
from bathyscope.report.record import Report
from bathyscope.report.series import Series, series_of
from bathyscope.report.shading import LEVELS, Shading, shade_class, shading


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One strip: its series, what it is called, and where the names of its blocks stand."""

    name: str
    series: Series
    blocks_id: str


def drawn(classes: Sequence[str]) -> str:
    """One SVG of one unit a block, runs of one class merged.

    Examples:
        >>> svg = drawn(["w0", "w0", "nf", ""])
        >>> svg[svg.index("<path") :]
        '<path class="w0" d="M0 0h2v1h-2z"/><path class="nf" d="M2 0h1v1h-1z"/></svg>'
    """
    paths: dict[str, list[str]] = {}
    start = 0
    for end in range(1, len(classes) + 1):
        if end == len(classes) or classes[end] != classes[start]:
            width = end - start
            if classes[start]:
                run = f"M{start} 0h{width}v1h-{width}z"
                paths.setdefault(classes[start], []).append(run)
            start = end
    inner = "".join(f'<path class="{name}" d="{"".join(d)}"/>' for name, d in paths.items())
    box = f'viewBox="0 0 {max(1, len(classes))} 1" preserveAspectRatio="none" aria-hidden="true"'
    return f"<svg {box}>{inner}</svg>"


def strip_row(row: Row, shades: Shading, *, label: str) -> str:
    """A labelled strip with its range; the page's script shows a block's value on hover or tap."""
    values = row.series.values
    told = "|".join(number(v) for v in values)
    strip = drawn([shade_class(v, shades) for v in values])
    gaps = " gaps" if None in values else ""
    span = range_of(values)
    spoken = f"{row.series.quantity.label} {row.name}: {span} over {counted(len(values), 'block')}"
    return (
        f'<div class="row"><div class="name">{label}</div>'
        f'<div class="strip{gaps}" tabindex="0" role="img" aria-label="{escape(spoken)}"'
        f' data-name="{escape(row.series.quantity.label)}" data-when="{escape(row.name)}"'
        f' data-blocks="{row.blocks_id}" data-values="{escape(told)}">{strip}</div>'
        f'<div class="range">{escape(span)}</div></div>'
    )


def block_axis(blocks: Sequence[Block]) -> str:
    """The row above the strips: first and last block, and a tick where the dimension changes."""
    ticks = drawn(["tick" if block.changes_dimension else "" for block in blocks])
    first, last = (blocks[0].index, blocks[-1].index) if blocks else (0, 0)
    return (
        f'<div class="row axis"><div class="name">{counted(len(blocks), "block")}</div>'
        f'<div class="ticks">{ticks}<span>{first}</span><span>{last}</span></div>'
        f'<div class="range">range</div></div>'
    )


def locator(blocks: Sequence[Block], finding: Finding) -> str:
    """A thin strip that marks the blocks a finding names."""
    named = set(finding.blocks)
    classes = ["here" if block.label in named else "" for block in blocks]
    if not any(classes):
        return ""
    return f'<div class="locator" aria-hidden="true">{drawn(classes)}</div>'


def block_names(blocks_id: str, blocks: Sequence[Block]) -> str:
    """The names of the blocks for the page's script, under an id."""
    names = embedded([[block.index, block.label] for block in blocks])
    return f'<script type="application/json" id="{blocks_id}">{names}</script>'


def strips(report: Report) -> str:
    """All strips of a report: by measurement, the main ones open, the others folded."""
    states = moments(report)
    found = [(label, series_of(state)) for label, state in states]
    keys = dict.fromkeys(key for _, series in found for key in series)
    head = joined(block_names(f"blocks-{i}", state.blocks) for i, (_, state) in enumerate(states))
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(key.partition(".")[0], []).append(key)

    def rows(key: str) -> list[Row]:
        return [
            Row(name=label, series=series[key], blocks_id=f"blocks-{i}")
            for i, (label, series) in enumerate(found)
            if key in series
        ]

    turns = any(block.changes_dimension for block in report.blocks)
    parts = [head, legend(transitions=turns), block_axis(report.blocks)]
    for group, members in groups.items():
        title = group.replace("_", " ")
        parts.append(f"<h3>{escape(title)}</h3>")
        drawn_rows = {key: _quantity_rows(key, rows(key)) for key in members}
        by_role = {key: rows(key)[0].series.quantity.role for key in members}
        parts += [text for key, text in drawn_rows.items() if by_role[key] == "main"]
        rest = [text for key, text in drawn_rows.items() if by_role[key] == "detail"]
        if rest:
            fold = f"<summary>{len(rest)} more</summary>"
            parts.append(f'<details class="more">{fold}{joined(rest)}</details>')
    return f'<div class="strips">{joined(parts)}</div>'


def _quantity_rows(key: str, rows: Sequence[Row]) -> str:
    """The strips of one quantity, a state each, on one scale."""
    shades = shading(rows[0].series.quantity, [v for row in rows for v in row.series.values])
    name = quantity_link(key, rows[0].series.quantity.label)
    if len(rows) == 1 and not rows[0].name:
        return strip_row(rows[0], shades, label=name)
    told = [strip_row(row, shades, label=f"<span>{escape(row.name)}</span>") for row in rows]
    return f'<div class="set"><div class="of">{name}</div>{joined(told)}</div>'


def quantity_link(key: str, label: str) -> str:
    """A quantity's label, leading to its plain words."""
    if not quantity(key).what:
        return escape(label)
    return f'<a href="#word-{escape(key)}">{escape(label)}</a>'


def legend(*, transitions: bool) -> str:
    """What the colours mean."""

    def ramp(letter: str) -> str:
        return "".join(f'<i class="{letter}{i}"></i>' for i in range(LEVELS + 1))

    items = [
        f'<span><b class="ramp">{ramp("w")}</b> good to bad</span>',
        f'<span><b class="ramp">{ramp("b")}</b> bad because too small</span>',
        f'<span><b class="ramp">{ramp("c")}</b> small to large</span>',
        '<span><b class="ramp"><i class="nf"></i></b> not finite</span>',
        '<span><b class="ramp"><i class="gap"></i></b> not measured</span>',
    ]
    if transitions:
        items.append('<span><b class="ramp"><i class="tick"></i></b> changes dimension</span>')
    return f'<p class="legend">{"".join(items)}</p>'
