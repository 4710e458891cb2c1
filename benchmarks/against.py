"""This run of the benchmarks beside an earlier one: what got slower by more than a tenth, and what faster."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]

COSTS = frozenset({"attention", "diagnose", "estimators", "forecast", "growth", "measure"}) | {
    *("training_loop", "treatment", "watching"),
}
"""Benchmarks whose `ratio` is what ours costs; of the others it is how many times faster ours is.

A line with `lower_is_better` says it for itself.
"""

_NOTABLE = 1.1


def changes(old: Iterable[Line], new: Iterable[Line]) -> list[tuple[str, str]]:
    """What changed by more than a tenth: ("slower" | "faster", the line in words), slowest first.

    Lines are distinguished by benchmark and case; what only one of the runs has is not a change.

    Examples:
        >>> old = [{"benchmark": "measure", "case": "a", "ratio": 2.0}]
        >>> changes(old, [{"benchmark": "measure", "case": "a", "ratio": 3.0}])
        [('slower', 'measure, a: 2.0 before, 3.0 now, 1.50 times as slow')]
    """
    before = {_key(line): line["ratio"] for line in old if _has_ratio(line)}
    result = []
    for line in new:
        key = _key(line)
        if not _has_ratio(line) or key not in before:
            continue
        then, now = before[key], line["ratio"]
        is_cost = line.get("lower_is_better", key[0] in COSTS)
        slower = now / then if is_cost else then / now
        phrase = f"{key[0]}, {key[1]}: {then} before, {now} now"
        if slower > _NOTABLE:
            result.append((slower, "slower", f"{phrase}, {slower:.2f} times as slow"))
        elif slower < 1 / _NOTABLE:
            result.append((slower, "faster", f"{phrase}, {1 / slower:.2f} times as fast"))
    return [(kind, text) for _, kind, text in sorted(result, reverse=True)]


def read_lines(path: Path) -> list[Line]:
    """The lines of an earlier run; what is no JSON object, such as a word of make's, is passed over."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        if text.startswith("{"):
            lines.append(json.loads(text))
    return lines


def _key(line: Line) -> tuple[str, str]:
    return str(line.get("benchmark")), str(line.get("case"))


def _has_ratio(line: Line) -> bool:
    ratio = line.get("ratio")
    return isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and ratio > 0
