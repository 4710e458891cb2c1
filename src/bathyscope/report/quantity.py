"""What a reader and a painter need to know about a measured quantity."""

from dataclasses import dataclass
from typing import Literal

Scale = Literal["log", "linear", "share", "auto"]
Direction = Literal["high", "low", "away", "none"]
Role = Literal["main", "detail", "setting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """How a quantity is told and drawn.

    Args:
        label: a few words for headings and strips.
        what: what it is, in a sentence.
        good: what a healthy network shows.
        why: why it matters.
        scale: logarithmic, linear, a share of 0 to 1, or decided by the values.
        direction: which side is bad: high, low, away from `target`, or none.
        anchors: where colour begins and where it is full; for `away`, distances from the target
            (factors on a logarithmic scale). They decide colours, never findings.
        target: the best value where `direction` is `away`.
        role: `main` is drawn everywhere, `detail` in the page's folded strips and the full table,
            `setting` (a cut-off) stands in the full table only.
        inverse: whether one over the measured value is shown, as findings tell it.
    """

    label: str
    what: str = ""
    good: str = ""
    why: str = ""
    scale: Scale = "auto"
    direction: Direction = "none"
    anchors: tuple[float, float] | None = None
    target: float = 1.0
    role: Role = "detail"
    inverse: bool = False
