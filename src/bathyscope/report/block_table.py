"""The table of the page: one row per block, sortable by any column, worst first."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf, isnan

from bathyscope.core.quantity import Quantity
from bathyscope.core.records import Block, Number, Severity
from bathyscope.measure.quantities import quantity_of
from bathyscope.report.numbers import number
from bathyscope.report.panels import columns_of, depth_panels
from bathyscope.report.record import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnHead:
    """A column: how it is called and sorted."""

    label: str
    name: str
    style: str = ""
    bad: str = "none"
    target: float = 1.0
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """A value as it is shown, and what it is sorted by; None for text."""

    text: str
    style: str
    sort: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A block with its findings, most severe first, and its values."""

    index: int
    label: str
    changes_dimension: bool
    kind: str
    shape: str
    size: int
    size_text: str
    badness: str
    findings: Sequence[tuple[Severity, str]]
    cells: Sequence[TableCell]


@dataclass(frozen=True, slots=True)
class BlockTable:
    """Heads and rows."""

    heads: Sequence[ColumnHead]
    rows: Sequence[TableRow]


_HEADS = (
    ColumnHead(label="#", name="index"),
    ColumnHead(label="block", name="name"),
    ColumnHead(label="kind", name="kind", style="more"),
    ColumnHead(label="output", name="shape", style="more"),
    ColumnHead(label="parameters", name="size", style="more", bad="high"),
    ColumnHead(label="findings", name="findings", bad="high"),
)


def block_table(report: Report) -> BlockTable | None:
    """Every block with every column; those that are not main are shown on request."""
    if not report.blocks:
        return None
    columns = columns_of(report)
    quantities = {key: quantity_of(key) for key in columns}
    classes = _classes(report)
    worst = _worst_severities(report)
    rows = []
    for at, block in enumerate(report.blocks):
        cells = [
            _cell(values[at], quantities[key], classes.get(key, {}).get(at, ""))
            for key, values in columns.items()
        ]
        rows.append(_row(block, worst.get(block.label, ()), cells))
    return BlockTable([*_HEADS, *(_head(key, quantities[key]) for key in columns)], rows)


def _head(key: str, known: Quantity) -> ColumnHead:
    style = "" if known.role == "main" else "more"
    return ColumnHead(
        label=known.label,
        name=key,
        style=style,
        bad=_side(known),
        target=known.target,
        what=known.description,
    )


def _side(known: Quantity) -> str:
    # on a linear scale the distance from the target is a difference, on a logarithmic one a factor
    if known.direction == "away" and known.scale == "log":
        return "factor"
    return known.direction


def _row(
    block: Block, result: Sequence[tuple[Severity, str]], cells: Sequence[TableCell]
) -> TableRow:
    badness = sum(10.0**severity.rank for severity, _ in result)
    return TableRow(
        index=block.index,
        label=block.label,
        changes_dimension=block.changes_dimension,
        kind=block.kind,
        shape=" × ".join(map(str, block.out_shape[1:])) or "–",
        size=block.num_parameters,
        size_text=number(block.num_parameters),
        badness=str(badness or ""),
        findings=result,
        cells=cells,
    )


def _cell(value: Number, known: Quantity, shade: str) -> TableCell:
    numeric = "" if isinstance(value, str) else "n"
    role = "" if known.role == "main" else "more"
    return TableCell(
        text=number(value),
        style=" ".join(part for part in (numeric, shade, role) if part),
        sort=None if isinstance(value, str) else _sort_value(value),
    )


def _sort_value(value: float | int | bool | None) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and isnan(value):
        return "NaN"
    if isinstance(value, float) and isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.6g}"  # three digits more than are shown


def _classes(report: Report) -> dict[str, dict[int, str]]:
    """The shade of every value that is not good, by column and row."""
    return {
        panel.key: {at: shade for at, shade in enumerate(panel.traces[0].shades) if shade != "w0"}
        for panel in depth_panels([("", report)])
        if panel.has_bad_side
    }


def _worst_severities(report: Report) -> dict[str, list[tuple[Severity, str]]]:
    """For each block the findings that name it, most severe first."""
    result: dict[str, list[tuple[Severity, str]]] = {}
    for finding in sorted(report.findings, key=lambda f: -f.severity.rank):
        for label in finding.blocks:
            result.setdefault(label, []).append((finding.severity, finding.code))
    return result
