"""Did a change help? Two reports of one network, compared finding by finding and number by number."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from bathyscope.core.quantity import Quantity
from bathyscope.core.records import Finding, Severity
from bathyscope.core.shown import Shown
from bathyscope.measure.quantities import QUANTITIES
from bathyscope.report.record import Report
from bathyscope.rules.evidence import finite

Outcome = Literal["better", "worse", "mixed", "same"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Difference(Shown):
    """What is gone, what is new, what stayed, and the key numbers before and after."""

    outcome: Outcome
    gone: tuple[Finding, ...]
    new: tuple[Finding, ...]
    stayed: tuple[Finding, ...]
    numbers: dict[str, tuple[float | None, float | None]]

    def _headline(self) -> str:
        return (
            f"{self.outcome}: {len(self.gone)} gone, {len(self.new)} new, {len(self.stayed)} stayed"
        )

    def _rows(self) -> Iterable[tuple[str, str]]:
        for name, findings in (("gone", self.gone), ("new", self.new), ("stayed", self.stayed)):
            yield name, ", ".join(f"{f.code} ({f.severity})" for f in findings)
        for name, (before, after) in self.numbers.items():
            yield name, f"{_text(before)} → {_text(after)}"


def difference_of(before: Report, after: Report) -> Difference:
    """Compare two reports; findings are the same when their codes and severities are.

    The outcome weighs problems against problems first, then warnings; without any change in the
    findings it is `same`.
    """
    numbers = {
        f"{quantity.key} ({quantity.over_depth})": (
            _over_depth(before, quantity),
            _over_depth(after, quantity),
        )
        for quantity in QUANTITIES.values()
        if quantity.over_depth
    }
    old = {(f.code, f.severity): f for f in before.findings}
    new = {(f.code, f.severity): f for f in after.findings}
    gone = tuple(f for key, f in old.items() if key not in new)
    added = tuple(f for key, f in new.items() if key not in old)
    return Difference(
        outcome=_outcome(gone, added),
        gone=gone,
        new=added,
        stayed=tuple(f for key, f in new.items() if key in old),
        numbers={name: pair for name, pair in numbers.items() if pair != (None, None)},
    )


def _outcome(gone: tuple[Finding, ...], new: tuple[Finding, ...]) -> Outcome:
    for severity in (Severity.PROBLEM, Severity.WARNING, Severity.NOTE):
        lost = sum(f.severity == severity for f in gone)
        won = sum(f.severity == severity for f in new)
        if lost or won:
            return "mixed" if lost and won else "better" if lost else "worse"
    return "same"


def _over_depth(report: Report, quantity: Quantity) -> float | None:
    """A quantity as one number for the whole body; None where it was not measured."""
    measurement, _, column = quantity.key.partition(".")
    result = next((m for m in report.measurements if m.name == measurement), None)
    if result is None or column not in result.columns:
        return None
    on_body = (
        v
        for block, v in zip(result.blocks, result[column], strict=True)
        if block.part == "body" and isinstance(v, (int, float))
    )
    values = finite(list(on_body))
    if not values:
        return None
    if quantity.over_depth != "range":
        return max(values) if quantity.over_depth == "largest" else min(values)
    smallest = min(abs(v) for v in values)
    return max(abs(v) for v in values) / smallest if smallest else math.inf


def _text(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"
