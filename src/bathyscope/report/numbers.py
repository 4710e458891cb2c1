"""Numbers as a reader sees them: three digits, no false precision, infinity as such."""

import math
from collections.abc import Iterable, Sequence

from bathyscope.core.records import Finding, Number, RootCause, Severity


def number(value: Number, *, digits: int = 3) -> str:
    """A value in a few characters.

    Examples:
        >>> [number(v) for v in (0.5, 12.345, 270_000_000_000.0, 1e-9, 64, 0.0)]
        ['0.5', '12.3', '2.7e11', '1e-9', '64', '0']
        >>> [number(v) for v in (None, float("nan"), float("-inf"), True, "float32", 1234567)]
        ['–', 'NaN', '-∞', 'yes', 'float32', '1,234,567']
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**9 else number(float(value), digits=digits)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 10**4:
        shown = f"{value:.{digits}g}"
        return f"{value:.0f}" if "e" in shown else shown
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"


def amount(count: int, thing: str) -> str:
    """A count with its noun.

    Examples:
        >>> amount(1, "block"), amount(333, "block")
        ('1 block', '333 blocks')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def counts(roots: Sequence[Finding]) -> str:
    """Root causes by severity, with their effects apart; `nothing found`.

    Examples:
        >>> counts([])
        'nothing found'
    """
    kinds = (Severity.PROBLEM, Severity.WARNING, Severity.NOTE)
    numbers = [(kind, sum(root.severity is kind for root in roots)) for kind in kinds]
    result = ", ".join(amount(count, str(kind)) for kind, count in numbers if count)
    effects = sum(len(root.effects) for root in roots if isinstance(root, RootCause))
    if effects:
        follow, them = "follow" + "s" * (effects == 1), "it" if len(roots) == 1 else "them"
        result += f" (and {effects:,} that {follow} from {them})"
    return result or "nothing found"


def evidence_of(finding: Finding) -> list[str]:
    """The numbers of a finding with their names, but for what its range of blocks says already."""
    said = ("first_block", "last_block") if finding.block_range else ()
    known = {k: v for k, v in finding.evidence.items() if k not in said and v is not None}
    return [f"{name.replace('_', ' ')} {number(value)}" for name, value in known.items()]


def name_list(names: tuple[str, ...], *, most: int = 4) -> str:
    """A list of names, the middle left out when it is long.

    Examples:
        >>> name_list(("a", "b"))
        'a, b'
        >>> name_list(tuple("abcdefgh"))
        'a, b … g, h (8 blocks)'
    """
    if len(names) <= most:
        return ", ".join(names)
    half = most // 2
    first, last = ", ".join(names[:half]), ", ".join(names[-half:])
    return f"{first} … {last} ({amount(len(names), 'block')})"


def block_extent(blocks: Sequence[str], order: Sequence[str], *, most: int = 3) -> str:
    """Blocks in the order of the forward pass: rows of three or more by their ends.

    Args:
        blocks: labels in any order.
        order: the labels of all blocks, first to last.
        most: from more rows and single blocks than these on, the middle is left out.

    Examples:
        >>> [block_extent(blocks, "abcdefgh") for blocks in ("cab", "dha", "fedah")]
        ['a to c', 'a, d, h', 'a, d to f, h']
    """
    location = {label: at for at, label in enumerate(order)}
    rows: list[list[str]] = []
    for label in sorted(blocks, key=lambda label: location.get(label, len(location))):
        at = location.get(label, 0)
        if at > 0 and rows and rows[-1][-1] == order[at - 1]:
            rows[-1].append(label)
        else:
            rows.append([label])
    parts = [
        f"{row[0]} to {row[-1]}" if len(row) >= _FEWEST_IN_ROW else ", ".join(row) for row in rows
    ]
    if len(parts) <= most:
        return ", ".join(parts)
    return name_list(tuple(label for row in rows for label in row))


_FEWEST_IN_ROW = 3
"""Blocks in a row from which on only the first and the last are named."""


def range_of(values: Iterable[float | None]) -> str:
    """Smallest and largest finite value, and how many are NaN or Inf.

    Examples:
        >>> range_of([1.0, 250.0, None, float("inf")])
        '1 – 250, 1 non-finite'
    """
    measured = [v for v in values if v is not None]
    finite = [v for v in measured if math.isfinite(v)]
    parts = []
    if finite:
        low, high = number(min(finite)), number(max(finite))
        parts.append(low if low == high else f"{low} – {high}")
    if len(finite) < len(measured):
        parts.append(f"{len(measured) - len(finite)} non-finite")
    return ", ".join(parts)
