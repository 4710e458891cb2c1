"""What happened in a watched training at a certain step: the fault of a rule, as it came about."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from bathyscope.core.json_values import name_non_finite
from bathyscope.core.records import Number
from bathyscope.core.shown import Shown, in_short
from bathyscope.rules import all_rules

_LOCATIONS = {
    "learning rate": "Set the learning rate back, or warm it up towards the new one; clip gradients.",
    "input": "Look at the inputs of this step: their scale, or values that are non-finite.",
    "update": "The optimizer itself made the weights NaN or Inf, from finite gradients: keep weights in "
    "float32 and compute under autocast, or raise eps, which is zero in float16.",
    "batch": "Look at the batch of this step, its labels above all; clip gradients.",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Event(Shown):
    """Something that happened in a training.

    Attributes:
        code: of a rule that has an event, as `explain` knows it.
        step: at which it was seen.
        began: where it began: a block's label, or `input`, `batch`, `loss`, `learning rate`, `update`.
        block: the same where it is a block, else the block that shows it most; None where there is none.
        before: what was out of the ordinary before it, in order, in words.
        numbers: what decided.
    """

    code: str
    step: int
    began: str
    block: str | None = None
    before: tuple[str, ...] = ()
    numbers: Mapping[str, Number] = field(default_factory=dict)

    def _headline(self) -> str:
        return f"{self.code}: {self.sentence}"

    def _rows(self) -> Iterable[tuple[str, str]]:
        yield from (("before it", line) for line in self.before)
        yield "numbers", in_short(self.numbers)
        yield "advice", self.advice

    @property
    def sentence(self) -> str:
        """The event in one line.

        Examples:
            >>> Event(code="loss-spike", step=41, began="batch").sentence
            'Step 41: the loss jumped; it began at the batch.'
        """
        known = ("input", "batch", "loss", "learning rate", "update")
        location = f"the {self.began}" if self.began in known else f"block {self.began}"
        event = all_rules()[self.code].event
        title = self.code if event is None else event.title
        return f"Step {self.step}: {title}; it began at {location}."

    @property
    def advice(self) -> str:
        """What to do: about the place where it began, where that is not a block; else about the code.

        Examples:
            >>> Event(code="loss-spike", step=41, began="learning rate").advice[:20]
            'Set the learning rat'
        """
        return _LOCATIONS.get(self.began, all_rules()[self.code].event_advice)

    def to_json(self) -> dict[str, object]:
        """The event in plain values; numbers that are non-finite, which JSON has not, as their names."""
        return asdict(self) | {
            "before": list(self.before),
            "numbers": name_non_finite(self.numbers),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> "Event | None":
        """The event that `to_json` wrote; None where the record is not such a thing.

        Examples:
            >>> event = Event(code="dead-units", step=3, began="layer1.0")
            >>> Event.from_json(event.to_json()) == event, Event.from_json({"code": "?"})
            (True, None)
        """
        code, step, began = record.get("code"), record.get("step"), record.get("began")
        if not isinstance(code, str) or not isinstance(step, int) or not isinstance(began, str):
            return None
        if code not in all_rules() or all_rules()[code].event is None:
            return None
        block, before, numbers = (record.get(name) for name in ("block", "before", "numbers"))
        return cls(
            code=code,
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
