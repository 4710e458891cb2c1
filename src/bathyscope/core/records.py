"""What travels between the parts: frozen records, without a module or a graph inside."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, get_args

from bathyscope.core.json_values import JsonMapping
from bathyscope.core.shown import Shown, in_short

if TYPE_CHECKING:
    import pandas as pd

Number = float | int | bool | str | None
Part = Literal["stem", "body", "head"]
"""Where in a network a block stands; stem and head are what lies before and after the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One step of the body of a network: x_{l+1} = block_l(x_l).

    A block is a module (`end == name`) or a run of modules that follow one another, such as a
    linear layer with its activation: the input is taken where `name` is called, the output where
    `end` returns. `call` counts the calls of a module that is used more than once.
    A weighted module before or after the body is described in the same way; its `part` says so, and
    its `index` continues that of the body: below 0 in the stem.
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
    part: Part = "body"

    @property
    def label(self) -> str:
        """The name under which the block is reported: `layer1.0`, or `shared[1]` for a second call."""
        return f"{self.name}[{self.call}]" if self.call else self.name


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measurement(Shown):
    """Some quantities, measured at every block.

    `columns` holds one value per block for each named column, in the order of `blocks`;
    `settings` what decides the numbers (tolerances, dtype, modes); `notes` what a reader must know.
    """

    name: str
    blocks: tuple[Block, ...]
    columns: Mapping[str, tuple[Number, ...]]
    settings: JsonMapping = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for column, values in self.columns.items():
            assert len(values) == len(self.blocks), f"{self.name}.{column}: one value per block"

    def __getitem__(self, column: str) -> tuple[Number, ...]:
        return self.columns[column]

    def _headline(self) -> str:
        return f"{self.name}: {len(self.columns)} columns at {len(self.blocks)} blocks"

    def _rows(self) -> Iterable[tuple[str, str]]:
        yield "columns", ", ".join(self.columns)
        yield "settings", in_short(self.settings)
        yield "notes", " ".join(self.notes)

    def to_frame(self, by: "Callable[[Block], Hashable] | None" = None) -> "pd.DataFrame":
        """A pandas table: one row per block under its label, one column per quantity.

        Args:
            by: from a block to its group, such as `lambda block: block.kind`; there is then one row
                per group with the means of the numbers of its blocks, and how many they are.

        Examples:
            >>> fc = Block(index=0, name="fc", end="fc", kind="Linear")
            >>> measured = Measurement(name="weights", blocks=(fc,), columns={"norm": (2.0,)})
            >>> measured.to_frame().to_dict()
            {'norm': {'fc': 2.0}}
            >>> measured.to_frame(by=lambda block: block.kind).to_dict("index")
            {'Linear': {'norm': 2.0, 'num_blocks': 1}}
        """
        import pandas as pd

        index = pd.Index([block.label for block in self.blocks], name="block")
        table = pd.DataFrame({name: list(v) for name, v in self.columns.items()}, index=index)
        if by is None:
            return table
        groups = pd.Series([by(block) for block in self.blocks], index=index, name="group")
        numbers = table.apply(pd.to_numeric, errors="coerce").dropna(axis=1, how="all")
        gathered = numbers.groupby(groups.to_numpy(), sort=False)
        return gathered.mean().assign(num_blocks=gathered.size()).rename_axis("group")


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
    "initialization",
    "architecture",
    "learning-rate",
    "optimizer",
    "batch",
    "budget",
    "mode",
    "precision",
    "data-flow",
    "loop",
    "schedule",
    "resume",
    "ranks",
]
"""The part of a training in which a fault lies: what a user would change."""

CAUSES: tuple[Cause, ...] = get_args(Cause)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding(Shown):
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

    @property
    def block_range(self) -> str:
        """The blocks over which a gradient changes smoothly, and by how much; empty for others."""
        first, last = (self.evidence.get(name) for name in ("first_block", "last_block"))
        ratio = self.evidence.get("ratio_per_block")
        if not first or not last or not isinstance(ratio, float):
            return ""
        change = f"shrinks {ratio:.3g}" if ratio >= 1 else f"grows {1 / max(ratio, 1e-300):.3g}"
        return f"{first} to {last}, {change}-fold per block"

    def _headline(self) -> str:
        return f"{self.code} ({self.severity}): {self.title}{_at(self)}"

    def _rows(self) -> Iterable[tuple[str, str]]:
        yield "cause", self.cause
        yield "evidence", in_short(self.evidence)
        yield "why", f"{self.why} ({self.source})" if self.source else self.why
        yield "remedy", self.remedy or "none known"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RootCause(Finding):
    """A finding that no other one explains, with those that it brought about."""

    effects: tuple[Finding, ...] = ()

    def _rows(self) -> Iterable[tuple[str, str]]:
        yield from Finding._rows(self)
        yield "effects", ", ".join(f"{effect.code}{_at(effect)}" for effect in self.effects)


def _at(finding: Finding) -> str:
    blocks = finding.blocks
    if not blocks:
        return ""
    if finding.block_range:
        return f", in {finding.block_range}"
    others = f" and {len(blocks) - 1} other{'s' * (len(blocks) > 2)}" if len(blocks) > 1 else ""
    return f", at {blocks[0]}{others}"


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClaimCheck(Shown):
    """A claim of a paper, tested: verdict, the assumptions as they were found, and the numbers.

    `vacuous` marks a claim that holds and says nothing about these numbers; `definition` says why one
    that holds could not have failed.
    """

    claim: str
    verdict: Verdict
    assumptions: tuple[Assumption, ...]
    numbers: JsonMapping
    statement: str
    extra_assumption: str | None = None
    corrected: str | None = None
    vacuous: bool = False
    definition: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)

    def _headline(self) -> str:
        return f"{self.claim}: {self.in_words}"

    @property
    def in_words(self) -> str:
        """The verdict, and whether it says anything."""
        why = f" (definition: {self.definition})" if self.definition else ""
        return f"{self.verdict.value}{', vacuously' * self.vacuous}{why}"

    def _rows(self) -> Iterable[tuple[str, str]]:
        yield "statement", self.statement
        yield "under", self.extra_assumption or ""
        yield "corrected", self.corrected or ""
        for one in self.assumptions:
            given = "" if one.value is None else f" ({in_short({'value': one.value})})"
            yield "assumption", f"{'holds' if one.holds else 'fails'}: {one.statement}{given}"
        yield "numbers", in_short(self.numbers)


BlockSource = Literal["declared", "given", "body", "leaves"]
