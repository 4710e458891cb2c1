"""What a watched training did at a certain step: the kinds of event, and the record of one."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from bathyscope.core.records import Number

EventKind = Literal[
    "not-finite",
    "loss-spike",
    "gradient-spike",
    "weights-run-away",
    "weights-changed",
    "activations-run-away",
    "units-die",
    "collapse",
    "updates-vanish",
    "entropy-falls",
]


@dataclass(frozen=True, slots=True)
class KindOfEvent:
    """What an event of one kind means, and what to do."""

    title: str
    advice: str


KINDS: dict[EventKind, KindOfEvent] = {
    "not-finite": KindOfEvent(
        "a value that is not finite",
        "Go back to a checkpoint before this step; look at the named place for a division by zero, a "
        "logarithm or root of zero, or an overflow in a short format; clip gradients, or lower the rate.",
    ),
    "loss-spike": KindOfEvent(
        "the loss jumped",
        "Look at the batch of this step; clip gradients; lower the learning rate, or warm it up.",
    ),
    "gradient-spike": KindOfEvent(
        "the gradient jumped",
        "Clip gradients; look at the batch of this step and at the named block.",
    ),
    "weights-run-away": KindOfEvent(
        "weights ran away",
        "Lower the learning rate, clip gradients, or add weight decay; go back to a checkpoint before.",
    ),
    "weights-changed": KindOfEvent(
        "weights changed between two steps",
        "Something other than the optimizer wrote them: a checkpoint that was loaded, or a damaged one.",
    ),
    "activations-run-away": KindOfEvent(
        "activations ran away",
        "Put a normalisation before the named block, scale its branch, or lower the learning rate.",
    ),
    "units-die": KindOfEvent(
        "most units of a block stopped answering",
        "Lower the learning rate; re-initialise the block; use an activation with a slope below zero.",
    ),
    "collapse": KindOfEvent(
        "all samples came to look alike",
        "Lower the learning rate; put shortcuts or a normalisation before the named block.",
    ),
    "updates-vanish": KindOfEvent(
        "the steps of a block became nothing",
        "Look for units that died, a learning rate that fell to zero, or a graph that was cut.",
    ),
    "entropy-falls": KindOfEvent(
        "attention came to look at one place only",
        "Normalise queries and keys, lower the learning rate, or warm it up.",
    ),
}


_PLACES = {
    "learning rate": "Set the learning rate back, or warm it up towards the new one; clip gradients.",
    "input": "Look at the inputs of this step: their scale, or values that are not finite.",
    "batch": "Look at the batch of this step, its labels above all; clip gradients.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a training.

    Attributes:
        kind: one of `KINDS`.
        step: at which it was seen.
        began: where it began: a block's label, or `input`, `batch`, `loss`, `learning rate`.
        block: the same where it is a block, else the block that shows it most; None where there is none.
        before: what was out of the ordinary before it, in order, in words.
        numbers: what decided.
    """

    kind: EventKind
    step: int
    began: str
    block: str | None = None
    before: tuple[str, ...] = ()
    numbers: Mapping[str, Number] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The event in one line.

        Examples:
            >>> Event(kind="loss-spike", step=41, began="batch").sentence
            'Step 41: the loss jumped; it began at the batch.'
        """
        known = ("input", "batch", "loss", "learning rate")
        place = f"the {self.began}" if self.began in known else f"block {self.began}"
        return f"Step {self.step}: {KINDS[self.kind].title}; it began at {place}."

    @property
    def advice(self) -> str:
        """What to do: about the place where it began, where that is no block; else about the kind.

        Examples:
            >>> Event(kind="loss-spike", step=41, began="learning rate").advice[:20]
            'Set the learning rat'
        """
        return _PLACES.get(self.began, KINDS[self.kind].advice)

    def to_json(self) -> dict[str, object]:
        """The event in plain values; numbers that are not finite, which JSON has not, as their names."""
        numbers = {
            k: str(v) if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in self.numbers.items()
        }
        return asdict(self) | {"before": list(self.before), "numbers": numbers}

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> "Event | None":
        """The event that `to_json` wrote; None where the record is no such thing.

        Examples:
            >>> event = Event(kind="collapse", step=3, began="layer1.0")
            >>> Event.from_json(event.to_json()) == event, Event.from_json({"kind": "?"})
            (True, None)
        """
        kind, step, began = record.get("kind"), record.get("step"), record.get("began")
        known = next((k for k in KINDS if k == kind), None)
        if known is None or not isinstance(step, int) or not isinstance(began, str):
            return None
        block, before, numbers = (record.get(name) for name in ("block", "before", "numbers"))
        return cls(
            kind=known,
            step=step,
            began=began,
            block=block if isinstance(block, str) else None,
            before=tuple(map(str, before)) if isinstance(before, list) else (),
            numbers=_plain_numbers(numbers) if isinstance(numbers, Mapping) else {},
        )


def _plain_numbers(numbers: Mapping[object, object]) -> dict[str, Number]:
    lost = ("nan", "inf", "-inf")
    return {
        str(k): float(v) if v in lost else v
        for k, v in numbers.items()
        if v is None or isinstance(v, (float, int, str))
    }
