"""Heat strips: one thin line a quantity across all blocks, as scalable graphics.

A strip is an SVG of one unit a block, stretched to the width of the page. Blocks of one shade form
one path, so that 333 blocks cost at most 20 elements.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.core.records import Block
from bathyscope.report.glossary import quantity
from bathyscope.report.moments import moments
from bathyscope.report.numbers import amount, number, range_of
from bathyscope.report.record import Report
from bathyscope.report.series import Series, series_of
from bathyscope.report.shading import Shading, shade_class, shading


@dataclass(frozen=True, slots=True)
class Drawing:
    """A strip of one unit a block: a path for each class, and the number of blocks."""

    paths: Sequence[tuple[str, str]]
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A quantity over depth: what is drawn, told under the pointer, and spoken."""

    key: str
    label: str
    has_words: bool
    when: str
    blocks_id: str
    told: str
    has_gaps: bool
    span: str
    spoken: str
    drawing: Drawing


@dataclass(frozen=True, slots=True, kw_only=True)
class StripGroup:
    """The quantities of one measurement, each a strip a state: the main ones, and the others."""

    title: str
    main: Sequence[Sequence[Strip]]
    detail: Sequence[Sequence[Strip]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockAxis:
    """The row above the strips: first and last block, and a tick where the dimension changes."""

    told: str
    first: str
    last: str
    drawing: Drawing


def draw(classes: Sequence[str]) -> Drawing:
    """A strip of these classes, runs of one class merged.

    Examples:
        >>> draw(["w0", "w0", "nf", ""]).paths
        [('w0', 'M0 0h2v1h-2z'), ('nf', 'M2 0h1v1h-1z')]
    """
    paths: dict[str, str] = {}
    start = 0
    for end in range(1, len(classes) + 1):
        if end == len(classes) or classes[end] != classes[start]:
            width = end - start
            if classes[start]:
                run = f"M{start} 0h{width}v1h-{width}z"
                paths[classes[start]] = paths.get(classes[start], "") + run
            start = end
    return Drawing(list(paths.items()), max(1, len(classes)))


def strips_of(key: str, states: Sequence[tuple[str, dict[str, Series]]]) -> list[Strip]:
    """The strips of one quantity, a state each, on one scale.

    Args:
        key: of the quantity.
        states: the name and the series of every state.
    """
    found = [(at, when, series[key]) for at, (when, series) in enumerate(states) if key in series]
    shades = shading(found[0][2].quantity, [v for _, _, series in found for v in series.values])
    return [_strip(key, series, shades, when=when, at=at) for at, when, series in found]


def _strip(key: str, series: Series, shades: Shading, *, when: str, at: int) -> Strip:
    values, span = series.values, range_of(series.values)
    label = series.quantity.label
    return Strip(
        key=key,
        label=label,
        has_words=bool(quantity(key).what),
        when=when,
        blocks_id=f"blocks-{at}",
        told="|".join(number(v) for v in values),
        has_gaps=None in values,
        span=span,
        spoken=f"{label} {when}: {span} over {amount(len(values), 'block')}",
        drawing=draw([shade_class(v, shades) for v in values]),
    )


def strip_groups(report: Report) -> list[StripGroup]:
    """All strips of a report, by measurement."""
    states = [(when, series_of(state)) for when, state in moments(report)]
    groups: dict[str, dict[str, list[Strip]]] = {}
    main: set[str] = set()
    for key in dict.fromkeys(key for _, series in states for key in series):
        groups.setdefault(key.partition(".")[0], {})[key] = strips_of(key, states)
        known = next(series[key].quantity for _, series in states if key in series)
        if known.role == "main":
            main.add(key)
    return [
        StripGroup(
            title=name.replace("_", " "),
            main=[strips for key, strips in members.items() if key in main],
            detail=[
                strips
                for key, strips in members.items()
                if key not in main and quantity(key).role == "detail"
            ],
        )
        for name, members in groups.items()
    ]


def block_axis(report: Report) -> BlockAxis:
    """The axis of a report's blocks."""
    places = [_place(block) for block in report.blocks] or ["0"]
    ticks = draw(["tick" if block.changes_dimension else "" for block in report.blocks])
    return BlockAxis(told=report.extent, first=places[0], last=places[-1], drawing=ticks)


def _place(block: Block) -> str:
    return str(block.index) if block.part == "trunk" else block.part


def trunk_names(states: Sequence[tuple[str, Report]]) -> list[list[tuple[int, str]]]:
    """Index and name of every block of every state, for the page's script."""
    return [[(block.index, block.label) for block in state.blocks] for _, state in states]
