"""What a claim is: a statement of a paper, and how it is tested where it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bathyscope.claims.relation import Relation
from bathyscope.core.records import Assumption

Theme = Literal["singularity", "shortcut_length", "nests", "norm_preservation"]
Status = Literal["coded", "not coded yet", "nothing to test"]
Numbers = Mapping[str, Any]
Law = Callable[[Numbers], Sequence[Relation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A numbered statement of a paper in our own words.

    `tested` says how; for a statement that asserts nothing measurable (`testable` False) it says why.
    """

    statement: str
    assumptions: tuple[str, ...] = ()
    tested: str = ""
    testable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured for a claim: the assumptions as they were found, and the numbers."""

    numbers: Numbers
    assumptions: tuple[Assumption, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The test of a claim: a measurement, and laws that its numbers must obey.

    Attributes:
        measure: from a seed, and whatever of `takes` is given, to numbers.
        law: the statement as the paper prints it.
        under: an assumption that the paper leaves out, and under which `law_under` is tested.
        corrected: what is true instead, said only where `law_corrected` holds.
        takes: keyword arguments of `measure`: "model" and "data" of the user, and sizes.
    """

    measure: Callable[..., Measured]
    law: Law
    under: str | None = None
    law_under: Law | None = None
    corrected: str | None = None
    law_corrected: Law | None = None
    takes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement under its name, `theme.kind_number`, with its test where there is one."""

    name: str
    theme: Theme
    number: str
    statement: Statement
    check: Check | None = None

    @property
    def status(self) -> Status:
        """Whether there is a test, should be one, or can be none."""
        if self.check is not None:
            return "coded"
        return "not coded yet" if self.statement.testable else "nothing to test"
