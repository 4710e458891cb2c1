"""What travels between the parts: frozen records, without a module or a graph inside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, get_args

from bathyscope.core.json_values import JsonMapping

Number = float | int | bool | str | None
Part = Literal["stem", "trunk", "head"]
"""Where in a network a block stands; stem and head are what lies before and after the trunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One step of the trunk of a network: x_{l+1} = block_l(x_l).

    A block is a module (`end == name`) or a run of modules that follow one another, such as a
    linear layer with its activation: the input is taken where `name` is called, the output where
    `end` returns. `call` counts the calls of a module that is used more than once.
    A weighted module before or after the trunk is described in the same way; its `part` says so, and
    its `index` goes on from those of the trunk: below 0 in the stem.
    """

    index: int
    name: str
    end: str
    kind: str
    call: int = 0
    in_shape: tuple[int, ...] = ()
    out_shape: tuple[int, ...] = ()
    num_parameters: int = 0
    changes_dimension: bool = False
    droppable: bool = False
    part: Part = "trunk"

    @property
    def label(self) -> str:
        """The name under which the block is reported: `layer1.0`, or `shared[1]` for a second call."""
        return f"{self.name}[{self.call}]" if self.call else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One quantity, measured at every block.

    `columns` holds one value a block for each named column, in the order of `blocks`;
    `settings` what decides the numbers (cut-offs, dtype, modes); `notes` what a reader must know.
    """

    name: str
    blocks: tuple[Block, ...]
    columns: Mapping[str, tuple[Number, ...]]
    settings: JsonMapping = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for column, values in self.columns.items():
            assert len(values) == len(self.blocks), f"{self.name}.{column}: one value a block"

    def __getitem__(self, column: str) -> tuple[Number, ...]:
        return self.columns[column]


class Severity(StrEnum):
    """How bad a finding is, mildest first."""

    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"

    @property
    def rank(self) -> int:
        """0 for the mildest."""
        return list(Severity).index(self)


Cause = Literal[
    "input",
    "labels",
    "output",
    "loss",
    "activation",
    "initialisation",
    "architecture",
    "learning-rate",
    "optimizer",
    "batch",
    "budget",
    "mode",
    "precision",
    "data-flow",
]
"""The part of a training in which a fault lies: what a user would change."""

CAUSES: tuple[Cause, ...] = get_args(Cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something a user should know about a training: what, where, the numbers, why, what helps.

    `cause` is the part of the training in which it lies; `step` is the number of steps of the
    look-ahead after which it was first seen, 0 for the model as it was given.
    """

    code: str
    severity: Severity
    title: str
    blocks: tuple[str, ...]
    evidence: Mapping[str, Number]
    why: str
    source: str
    remedy: str | None = None
    score: float = 0.0
    cause: Cause = "architecture"
    step: int = 0


class Verdict(StrEnum):
    """What a check of a claim found."""

    HOLDS = "holds"
    HOLDS_UNDER = "holds under"
    VIOLATED = "violated"
    NOT_SUPPORTED = "not supported here"
    INAPPLICABLE = "inapplicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """An assumption of a claim, evaluated: its number and whether it holds."""

    statement: str
    holds: bool
    value: Number = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCheck:
    """A claim of a paper, tested: verdict, the assumptions as they were found, and the numbers.

    `vacuous` marks a claim that holds and says nothing about these numbers.
    """

    claim: str
    verdict: Verdict
    assumptions: tuple[Assumption, ...]
    numbers: JsonMapping
    statement: str
    extra_assumption: str | None = None
    corrected: str | None = None
    vacuous: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)


BlockSource = Literal["declared", "given", "trunk", "leaves"]
