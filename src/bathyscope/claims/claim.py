"""What a claim is: a statement of a paper in our words, and how it is tested where it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bathyscope.claims.relation import Relation
from bathyscope.core.json_values import JsonMapping
from bathyscope.core.records import Assumption

Status = Literal["coded", "nothing to test"]
Definition = Literal["", "an identity of the implementation", "a fact of textbooks"]
Numbers = JsonMapping
Law = Callable[[Numbers], Sequence[Relation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured for a claim: the assumptions as they were found, and the numbers."""

    numbers: Numbers
    assumptions: tuple[Assumption, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Another claim, or a check of a study, that speaks of the same thing.

    Attributes:
        to: name of the claim or of the study.
        check: words of that study's check; all of its judged checks where empty.
        difference: why the two may come out differently; where empty they must agree.
    """

    to: str
    check: str = ""
    difference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement of a paper with its measurement, and the laws that the numbers must obey.

    Attributes:
        name: `theme.kind_number`.
        statement: what the paper says, in our words.
        assumptions: what it assumes.
        tested: how it is tested; where nothing can be, why.
        formula: the same as a formula in TeX, where words are not enough.
        measure: from a seed, and whatever of `takes` is given, to numbers; None where the statement
            asserts nothing measurable.
        law: the statement as the paper prints it.
        under: an assumption that the paper leaves out, and under which `law_under` is tested.
        law_strict: a stricter or more general reading than the printed one, shown beside it; it does
            not change the verdict.
        corrected: what is true instead, said only where `law_corrected` holds.
        empirical: the statement speaks of training in general and is tested by small experiments:
            numbers that speak against it say "not supported here", and refute nothing.
        vacuous: where these relations hold the statement is true and says nothing.
        takes: keyword arguments of `measure`: "model" and "data" of the user, and sizes.
        definition: why the statement cannot fail: it is how the networks are built, or in textbooks.
            Its check tests the implementation, and is counted apart.
        links: claims and studies that speak of the same thing.
        undecided: parts of the statement that nothing here decides, each with the reason.
    """

    name: str
    statement: str
    tested: str
    assumptions: tuple[str, ...] = ()
    formula: str = ""
    measure: Callable[..., Measured] | None = None
    law: Law | None = None
    under: str | None = None
    law_under: Law | None = None
    law_strict: Law | None = None
    corrected: str | None = None
    law_corrected: Law | None = None
    empirical: bool = False
    vacuous: Law | None = None
    takes: tuple[str, ...] = ()
    definition: Definition = ""
    links: tuple[Link, ...] = ()
    undecided: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert (self.measure is None) == (self.law is None), f"{self.name}: numbers need a law"

    @property
    def theme(self) -> str:
        """The theme word of the paper."""
        return self.name.partition(".")[0]

    @property
    def number(self) -> str:
        """What the paper calls it: "theorem 1"."""
        return self.name.partition(".")[2].replace("_", " ")

    @property
    def status(self) -> Status:
        """Whether there is a test, or can be none."""
        return "nothing to test" if self.measure is None else "coded"
