"""One rule, one object: all there is to say about one kind of finding; the thresholds that decide it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto
from pathlib import Path
from typing import Any

from bathyscope.core.arguments import check_number
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.json_values import JsonMapping
from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Cause, Finding, Number, Severity
from bathyscope.rules.evidence import Evidence

ROUNDING = "rounding: an update or branch below the dtype's ε is lost in the addition"
MEASURED = "measured on healthy networks, see the page on findings"
NINE_IN_TEN = (
    "from here on nine in ten random networks of the forecast's table failed, in round numbers"
)


class CausalStage(IntEnum):
    """How early in the chain of causes a fault lies: of two findings of one severity the earlier leads."""

    LOOP = auto()
    INPUT = auto()
    LABELS = auto()
    STRUCTURE = auto()
    OUTPUT = auto()
    LOSS = auto()
    OPTIMIZER = auto()
    MODE = auto()
    SATURATION = auto()
    NON_FINITE = auto()
    FLATNESS = auto()
    ATTENTION = auto()
    WEIGHTS = auto()
    UNITS = auto()
    TOKENS = auto()
    REPRESENTATIONS = auto()
    GRADIENTS = auto()
    UPDATES = auto()
    CERTIFICATE = auto()
    BATCH = auto()
    OUTCOME = auto()
    EVENT = auto()


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number, what crossing it means, and its source."""

    value: float
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds in force: those of the rules, with what the user overrode."""

    overridden: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        from bathyscope.rules.registry import all_thresholds

        return self.overridden.get(name, all_thresholds()[name].value)

    @classmethod
    def of(cls, source: Path | str | Mapping[str, float] | None = None) -> "Thresholds":
        """Defaults overridden from a mapping or from the table `[thresholds]` of a TOML file.

        Raises:
            UsageError: the file cannot be read, a name is unknown, or a value is not a positive number.

        Examples:
            >>> Thresholds.of({"dead_fraction": 0.5})["dead_fraction"]
            0.5
        """
        from bathyscope.rules.registry import all_thresholds

        if source is None:
            return cls({})
        values: Mapping[str, object] = source if isinstance(source, Mapping) else _table(source)
        for name in values:
            if name not in all_thresholds():
                raise UnknownName("threshold", str(name), all_thresholds())
        return cls(
            {
                name: check_number(f"Threshold {name!r}", value, low=0.0, open_low=True)
                for name, value in values.items()
            }
        )


def _table(path: Path | str) -> JsonMapping:
    from bathyscope.runs import read_toml

    if not isinstance(path, (str, Path)):
        raise UsageError(
            f"Thresholds are a mapping or a TOML file, but a {type(path).__name__} was given."
        )
    table = read_toml(Path(path)).get("thresholds")
    if not isinstance(table, dict):
        raise UsageError(f"{path} has no table [thresholds]; add one with name = number lines.")
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """How the fault of a rule shows as an event while training.

    With a `column` it is a block whose sample crosses a limit that the samples before it kept; without
    one the recorder notices it in the loss, the gradients or the weights of every step.

    Attributes:
        title: what happened, as part of a sentence.
        advice: what to do; the rule's own advice where it is None.
        column: one of those that a watch samples per block (`std`, `dead`, `variety`, `entropy`, …).
        above, below: the limit that the block has crossed.
        before: what the median of the samples before had to keep: at most this much for `above`, at
            smallest for `below`.
        times: `above` and `below` in units of that median.
        floor: the unit where that median is smaller.
        last: compare with the last n samples alone; with all of them by default.
        unless: codes of events of the same block and step that explain this one.
    """

    title: str
    advice: str | None = None
    column: str | None = None
    above: float | None = None
    below: float | None = None
    before: float | None = None
    times: bool = False
    floor: float = 0.0
    last: int | None = None
    unless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class When:
    """A condition on one measured value, or on that of any block, stem or head.

    Attributes:
        name: `measurement.column`, `measurement.fact`, or an attribute of the evidence.
        above, below: a number, the name of a threshold, or that of another value.
        among: the values one of which it is.
        is_finite: False where it is NaN or Inf.
    """

    name: str
    above: float | str | None = None
    below: float | str | None = None
    among: tuple[object, ...] = ()
    is_finite: bool | None = None

    def holds(self, evidence: Evidence, thresholds: Thresholds) -> bool:
        """Whether a value that was measured satisfies it; without a limit, whether it is not zero."""
        values = [value for value in evidence.values(self.name) if value is not None]
        if self.among:
            return any(value in self.among for value in values)
        if self.above is None and self.below is None and self.is_finite is None:
            return any(values)
        numbers = [value for value in values if isinstance(value, (int, float))]
        if self.is_finite is not None:
            return any(math.isfinite(number) == self.is_finite for number in numbers)
        low, high = (_limit(x, evidence, thresholds) for x in (self.above, self.below))
        return any((low is None or v > low) and (high is None or v < high) for v in numbers)


def _limit(limit: float | str | None, evidence: Evidence, thresholds: Thresholds) -> float | None:
    if not isinstance(limit, str):
        return limit
    if "." not in limit:
        return thresholds[limit]
    return next((v for v in evidence.values(limit) if isinstance(v, (int, float))), None)


Find = Callable[[Evidence, Thresholds], Iterator[Finding]]
FindInLoop = Callable[[LoopRecord, Thresholds], Iterator[Finding]]
Targeted = str | Callable[..., Iterator[Any]]


# What helps where a finding's cause is known better than its rule does.
_REMEDY_OF_CAUSE: dict[Cause | None, str] = {
    "activation": "Activations that do not saturate (ReLU, GELU), with their initialization, in place of "
    "sigmoid, tanh or softmax. "
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fault: how it is found, what it means, what it brings about, what helps.

    Attributes:
        code: names the finding and the event everywhere.
        stage: how early in the chain of causes it lies.
        cause: the part of the training in which the fault usually lies.
        title, explanation, source, advice: for a reader.
        reads: columns, `measurement.column`, and measurements of the network as a whole; by default those
            that its conditions name.
        thresholds: by the name under which a user overrides them.
        when: conditions one of which must hold, or the rule is not asked: a name alone for a value that
            is not zero. A rule without any is asked wherever what it reads was measured.
        find: the findings in some evidence; None where only training shows it.
        find_in_loop: the findings in the record of a training loop.
        effects: codes that it brings about wherever they are found; it is as severe as they are.
        downstream, upstream: codes that it brings about in its block and later ones, or in its block
            and earlier ones (by backpropagation).
        event: how the same fault shows while training.
        remedies: recipes that `treat` tries for it: names in `rules.targeted`, or functions
            `(context, findings) -> recipes`.
        repairs: steps at input or output that belong together in one recipe; as `remedies`.
        compares_samples: left out where the batch is one sample, repeated.
        reads_gradients: left out there too if a batch norm gives such samples its bias.
        initial_only: says something of a fresh network only: one that fits its batch has it too.
    """

    code: str
    stage: CausalStage
    cause: Cause
    title: str
    explanation: str
    source: str
    advice: str | None
    reads: tuple[str, ...] = ()
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    when: tuple[str | When, ...] = ()
    find: Find | None = None
    find_in_loop: FindInLoop | None = None
    effects: tuple[str, ...] = ()
    downstream: tuple[str, ...] = ()
    upstream: tuple[str, ...] = ()
    event: Transition | None = None
    remedies: tuple[Targeted, ...] = ()
    repairs: tuple[Targeted, ...] = ()
    compares_samples: bool = False
    reads_gradients: bool = False
    initial_only: bool = False

    def __post_init__(self) -> None:
        if not self.reads:
            names = (c if isinstance(c, str) else c.name for c in self.when)
            named = dict.fromkeys(name.partition(".")[0] for name in names if "." in name)
            object.__setattr__(self, "reads", tuple(named))

    def finding(
        self,
        severity: Severity,
        blocks: Sequence[str] = (),
        *,
        score: float,
        cause: Cause | None = None,
        title: str | None = None,
        why: str | None = None,
        source: str | None = None,
        remedy: str | None = None,
        **numbers: Number,
    ) -> Finding:
        """A finding of this rule at some blocks, with the numbers that decided.

        Title, why, source and remedy are the rule's own unless the evidence allows to say more. A cause
        that evidence gives in place of the rule's own brings its remedy with it.
        """
        first = _REMEDY_OF_CAUSE.get(cause, "") if cause != self.cause else ""
        return Finding(
            code=self.code,
            severity=severity,
            title=title or self.title,
            blocks=tuple(blocks),
            evidence=numbers,
            why=why or self.explanation,
            source=source or self.source,
            remedy=remedy or first + (self.advice or "") or None,
            score=score,
            cause=cause or self.cause,
        )

    def may_apply(self, evidence: Evidence, thresholds: Thresholds) -> bool:
        """Whether one of its conditions holds, or it has none."""
        conditions = (When(c) if isinstance(c, str) else c for c in self.when)
        return not self.when or any(c.holds(evidence, thresholds) for c in conditions)

    @property
    def remedy_names(self) -> tuple[str, ...]:
        """What `treat` tries for it, by name."""
        every = (*self.remedies, *self.repairs)
        return tuple(one if isinstance(one, str) else one.__name__ for one in every)

    @property
    def event_advice(self) -> str:
        """What to do when it happens while training."""
        advice = self.event.advice if self.event is not None else None
        return advice or self.advice or "none known"


def problem_if(is_severe: bool) -> Severity:
    """A problem, or else a warning."""
    return Severity.PROBLEM if is_severe else Severity.WARNING


OF_WRONG_SCALE = (
    *("saturated-output", "constant-output", "poor-start", "overshooting-step"),
    *("loss-does-not-fall", "unstable-rate", "large-update", "zero-gradient", "dead-units"),
    *("precision-loss", "collapsed-representation", "singular-representation", "batchnorm-masks"),
    *("not-norm-preserving", "exploding-gradient", "vanishing-gradient", "non-finite"),
)
"""What values of the wrong size bring about."""

OF_FLAT_OUTPUT = (
    *("saturated-output", "constant-output", "zero-gradient", "poor-start", "loss-does-not-fall"),
    *("cut-gradient", "collapsed-representation", "not-norm-preserving", "vanishing-gradient"),
)
"""What an output that does not fit its loss brings about."""
