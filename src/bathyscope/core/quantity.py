"""A measured quantity: how it comes about, what is good, and how it is shown."""

from dataclasses import dataclass
from math import inf
from typing import Literal

Scale = Literal["log", "linear", "fraction", "auto"]
Direction = Literal["high", "low", "away", "none"]
Role = Literal["main", "detail", "setting"]
Reducer = Literal[
    "",
    "all layers together",
    "largest over layers",
    "smallest over layers",
    "largest over activation functions",
    "mean over heads",
    "largest over heads",
    "smallest over heads",
]
"""How the numbers of a block's layers or heads become one; empty where a block has only one."""
OverDepth = Literal["", "largest", "smallest", "range"]
"""How a column becomes one number for a comparison; a range is the largest over the smallest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One column of a measurement. Table, page, picture, JSON and glossary read it here.

    Attributes:
        key: `measurement.column`, as tables and JSON name it.
        label: a few words for headings and axes.
        unit: what one of it is; empty for a pure number.
        reducer: how the numbers of a block's layers become one.
        over_depth: how the column is summed up where two diagnoses are compared; empty: it is not.
        what: what it is, in a sentence.
        good: what a healthy network shows.
        why: why it matters.
        scale: logarithmic, linear, a fraction of 0 to 1, or decided by the values.
        direction: which side is bad: high, low, away from `target`, or none.
        anchors: where color begins and where it is full; for `away`, distances from the target
            (factors on a logarithmic scale). They decide colors and the good range of a plot, never
            findings.
        target: the best value where `direction` is `away`.
        role: `main` is shown everywhere, `detail` in the page's folded strips and the full table,
            `setting` (a tolerance) stands in the full table only.

    Examples:
        >>> ratio = Quantity(
        ...     key="gradients.ratio", label="gradient norm ratio", scale="log", direction="away",
        ...     anchors=(2.0, 10.0),
        ... )
        >>> ratio.good_range
        (0.5, 2.0)
    """

    key: str
    label: str
    unit: str = ""
    reducer: Reducer = ""
    over_depth: OverDepth = ""
    what: str = ""
    good: str = ""
    why: str = ""
    scale: Scale = "auto"
    direction: Direction = "none"
    anchors: tuple[float, float] | None = None
    target: float = 1.0
    role: Role = "detail"

    @property
    def good_range(self) -> tuple[float, float] | None:
        """The values that are shown without color; None where no side is bad."""
        if self.anchors is None or self.direction == "none":
            return None
        start = self.anchors[0]
        if self.direction == "high":
            return (-inf, start)
        if self.direction == "low":
            return (start, inf)
        if self.scale == "log":
            return (self.target / start, self.target * start)
        return (self.target - start, self.target + start)

    @property
    def axis(self) -> str:
        """The label with its unit, as an axis has it."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    @property
    def description(self) -> str:
        """What it is, how a block's number comes about, what is good and why it matters."""
        reduced = f"{self.reducer[:1].upper()}{self.reducer[1:]} of the block." * bool(self.reducer)
        parts = (self.what, reduced, f"Good: {self.good}" * bool(self.good), self.why)
        return " ".join(part for part in parts if part)
