"""The table of the page: a row a block, sortable by any column, worst first."""

from collections.abc import Sequence
from math import isinf, isnan

from bathyscope.core.records import Block, Number, Severity
from bathyscope.report.glossary import quantity
from bathyscope.report.html_text import escape, joined
from bathyscope.report.numbers import number
from bathyscope.report.quantity import Quantity
from bathyscope.report.record import Report
from bathyscope.report.series import columns_of, series_of
from bathyscope.report.shading import shade_class, shading


def table(report: Report) -> str:
    """Every block with every column; those that are not main are shown on request."""
    if not report.blocks:
        return ""
    columns = columns_of(report)
    quantities = {key: quantity(key) for key in columns}
    classes = _classes(report)
    heads = [
        _head("#", "index"),
        _head("block", "name"),
        _head("kind", "kind", style="more"),
        _head("output", "shape", style="more"),
        _head("parameters", "size", style="more", bad="high"),
        _head("findings", "findings", bad="high"),
        *(_quantity_head(key, quantities[key]) for key in columns),
    ]
    worst = _worst_severities(report)
    body = []
    for at, block in enumerate(report.blocks):
        cells = [
            _cell(key, values[at], quantities[key], classes.get(key, {}).get(at, ""))
            for key, values in columns.items()
        ]
        body.append(f"<tr>{_block_cells(block, worst.get(block.label, ()))}{''.join(cells)}</tr>")
    return joined(
        (
            '<p class="controls"><button type="button" data-sort="findings">worst first</button> '
            '<button type="button" data-sort="index">in order of depth</button> '
            '<label><input type="checkbox" id="all-columns"> all columns</label></p>',
            '<div class="scroll" tabindex="0" role="region" aria-label="Table of blocks"><table>',
            f"<thead><tr>{''.join(heads)}</tr></thead>",
            f"<tbody>{joined(body)}</tbody></table></div>",
        )
    )


def _head(label: str, name: str, *, style: str = "", bad: str = "none", target: float = 1.0) -> str:
    order = ' aria-sort="ascending"' if name == "index" else ""
    return (
        f'<th scope="col" class="{style}" data-column="{escape(name)}" data-bad="{bad}"'
        f' data-target="{target!r}"{order}><button type="button">{escape(label)}</button></th>'
    )


def _quantity_head(key: str, known: Quantity) -> str:
    style = "" if known.role == "main" else "more"
    return _head(known.label, key, style=style, bad=_side(known), target=known.target)


def _side(known: Quantity) -> str:
    # on a linear scale the distance from the target is a difference, on a logarithmic one a factor
    if known.direction == "away" and known.scale == "log":
        return "factor"
    return known.direction


def _block_cells(block: Block, found: Sequence[tuple[Severity, str]]) -> str:
    badness = sum(10.0**severity.rank for severity, _ in found)
    marks = " ".join(
        f'<span class="severity {severity}" title="{severity}">{escape(code)}</span>'
        for severity, code in found
    )
    change = ' class="transition" title="changes the dimension"' if block.changes_dimension else ""
    shape = " × ".join(map(str, block.out_shape[1:])) or "–"
    return (
        f'<td class="n">{block.index}</td><th scope="row"{change}>{escape(block.label)}</th>'
        f'<td class="more">{escape(block.kind)}</td><td class="more">{shape}</td>'
        f'<td class="n more" data-v="{block.num_parameters}">{number(block.num_parameters)}</td>'
        f'<td data-v="{badness or ""}">{marks}</td>'
    )


def _cell(key: str, value: Number, known: Quantity, shade: str) -> str:
    style = " ".join(
        part
        for part in (
            "n" if not isinstance(value, str) else "",
            shade,
            "" if known.role == "main" else "more",
        )
        if part
    )
    sort = f' data-v="{_sort_value(value)}"' if not isinstance(value, str) else ""
    return f'<td class="{style}"{sort}>{escape(number(value))}</td>'


def _sort_value(value: float | int | bool | None) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and isnan(value):
        return "NaN"
    if isinstance(value, float) and isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(float(value))


def _classes(report: Report) -> dict[str, dict[int, str]]:
    """The shade of every value that is not good, by column and row."""
    found: dict[str, dict[int, str]] = {}
    for key, series in series_of(report).items():
        shades = shading(series.quantity, series.values)
        if shades.family != "cool":
            told = {at: shade_class(value, shades) for at, value in enumerate(series.values)}
            found[key] = {at: name for at, name in told.items() if name != "w0"}
    return found


def _worst_severities(report: Report) -> dict[str, list[tuple[Severity, str]]]:
    """For each block the findings that name it, gravest first."""
    found: dict[str, list[tuple[Severity, str]]] = {}
    for finding in sorted(report.findings, key=lambda f: -f.severity.rank):
        for label in finding.blocks:
            found.setdefault(label, []).append((finding.severity, finding.code))
    return found
