"""Did a change help? Two reports of one network, compared finding by finding and number by number."""

import math
from dataclasses import dataclass
from typing import Literal

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import finite
from bathyscope.report import Report

Outcome = Literal["better", "worse", "mixed", "same"]

# The few numbers that a reader compares first: measurement, column, how it is summed up, and whether
# less is better. Gradients are compared by their range over depth.
_KEY_NUMBERS = (
    ("gradients", "norm_in", "range"),
    ("representations", "mean_cosine", "largest"),
    ("activations", "dead_units", "largest"),
    ("weights", "spectral_norm", "largest"),
    ("updates", "largest_ratio", "largest"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What is gone, what is new, what stayed, and the key numbers before and after."""

    outcome: Outcome
    gone: tuple[Finding, ...]
    new: tuple[Finding, ...]
    stayed: tuple[Finding, ...]
    numbers: dict[str, tuple[float | None, float | None]]

    def __str__(self) -> str:
        lines = [
            f"{self.outcome}: {len(self.gone)} gone, {len(self.new)} new, {len(self.stayed)} stayed"
        ]
        lines += [f"  gone    {f.code} ({f.severity})" for f in self.gone]
        lines += [f"  new     {f.code} ({f.severity})" for f in self.new]
        lines += [f"  stayed  {f.code} ({f.severity})" for f in self.stayed]
        for name, (before, after) in self.numbers.items():
            lines.append(f"  {name}: {_text(before)} → {_text(after)}")
        return "\n".join(lines)


def difference_of(before: Report, after: Report) -> Difference:
    """Compare two reports; findings are the same when their codes and severities are.

    The outcome weighs problems against problems first, then warnings; without any change in the
    findings it is `same`.
    """
    old = {(f.code, f.severity): f for f in before.findings}
    new = {(f.code, f.severity): f for f in after.findings}
    gone = tuple(f for key, f in old.items() if key not in new)
    added = tuple(f for key, f in new.items() if key not in old)
    return Difference(
        outcome=_outcome(gone, added),
        gone=gone,
        new=added,
        stayed=tuple(f for key, f in new.items() if key in old),
        numbers={
            f"{measurement}.{column} ({how})": (
                _summed_up(before, measurement, column, how),
                _summed_up(after, measurement, column, how),
            )
            for measurement, column, how in _KEY_NUMBERS
        },
    )


def _outcome(gone: tuple[Finding, ...], new: tuple[Finding, ...]) -> Outcome:
    for severity in (Severity.PROBLEM, Severity.WARNING, Severity.NOTE):
        lost = sum(f.severity == severity for f in gone)
        won = sum(f.severity == severity for f in new)
        if lost or won:
            return "mixed" if lost and won else "better" if lost else "worse"
    return "same"


def _summed_up(report: Report, measurement: str, column: str, how: str) -> float | None:
    found = next((m for m in report.measurements if m.name == measurement), None)
    if found is None or column not in found.columns:
        return None
    on_trunk = (
        v
        for block, v in zip(found.blocks, found[column], strict=True)
        if block.part == "trunk" and isinstance(v, (int, float))
    )
    values = finite(list(on_trunk))
    if not values:
        return None
    if how == "largest":
        return max(values)
    smallest = min(abs(v) for v in values)
    return max(abs(v) for v in values) / smallest if smallest else math.inf


def _text(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"
