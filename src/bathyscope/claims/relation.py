"""A law in numbers: what must be at most, at least or equal to what, and whether it is."""

import math
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Relation:
    """left ≤ right, left ≥ right or left = right, each up to `slack`; false where a side is NaN."""

    what: str
    left: float
    sense: Literal["≤", "≥", "="]
    right: float
    slack: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the numbers obey it."""
        if math.isnan(self.left) or math.isnan(self.right):
            return False
        if self.sense == "≤":
            return self.left <= self.right + self.slack
        if self.sense == "≥":
            return self.left >= self.right - self.slack
        return self.left == self.right or abs(self.left - self.right) <= self.slack

    def as_dict(self) -> dict[str, object]:
        """Its fields and whether it holds."""
        return {**asdict(self), "holds": self.holds}

    def __str__(self) -> str:
        sense = self.sense if self.holds else {"≤": "≰", "≥": "≱", "=": "≠"}[self.sense]
        return f"{self.what}: {self.left:.4g} {sense} {self.right:.4g}"


def at_most(
    what: str, left: float | int, right: float | int, *, slack: float | int = 0.0
) -> Relation:
    """left ≤ right + slack.

    Examples:
        >>> print(at_most("error", 0.5, 0.1))
        error: 0.5 ≰ 0.1
    """
    return Relation(what, float(left), "≤", float(right), float(slack))


def at_least(
    what: str, left: float | int, right: float | int, *, slack: float | int = 0.0
) -> Relation:
    """left ≥ right − slack.

    Examples:
        >>> at_least("fraction", 1.0, 0.9).holds
        True
    """
    return Relation(what, float(left), "≥", float(right), float(slack))


def equal(
    what: str, left: float | int, right: float | int, *, slack: float | int = 0.0
) -> Relation:
    """|left − right| ≤ slack; two infinities of one sign are equal.

    Examples:
        >>> equal("order", 2.01, 2, slack=0.1).holds, equal("order", float("nan"), 2).holds
        (True, False)
    """
    return Relation(what, float(left), "=", float(right), float(slack))
