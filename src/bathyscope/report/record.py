"""What a report is made of: records only, nothing that measures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from bathyscope.core.records import Block, Finding, Measurement, Number, RootCause
from bathyscope.foresight.record import Forecast
from bathyscope.report.numbers import amount

Level = Literal["clean", "note", "warning", "problem"]
"""How a network fares on the whole, best first."""

Curve = Sequence[tuple[float | int, float | int | None]]
"""Pairs of a step and a value, in the order of the steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """The verdict on a network: a level and one sentence that says it in plain words."""

    level: Level
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """Everything that is shown of one network at one moment.

    Args:
        title: the model's name.
        verdict: said first, wherever the report is shown.
        blocks: the blocks of the body, first to last, with those of stem and head around them.
        measurements: the quantities; each has its own blocks, which may be some of `blocks`.
        findings: ranked, most severe first; they name blocks by `Block.label`.
        explained_by: for each finding the index of the one that brought it about, None for a root
            cause; empty where every finding stands alone.
        passed: codes of the checks that found nothing.
        not_checked: codes of the checks that could not be made, and why.
        decisive: key of the quantity that shows the first root cause; empty: the worst is shown.
        provenance: what decides the numbers: versions, hardware, seed, dtype, mode, batch, time.
        before: the same network at an earlier state, shown side by side.
        stages: the same network at several moments, in the order of time.
        curves: training curves, each a sequence of (step, value).
        notes: sentences that a reader must know.
        forecast: whether it will train, where that was asked.
        code: the change that was made, as PyTorch code; empty where none was.
        outcome: what came of a training or a treatment, in a sentence; empty where there was none.

    Examples:
        >>> from bathyscope.core.records import Block
        >>> fc = Block(index=0, name="fc", end="fc", kind="Linear")
        >>> report = Report(
        ...     title="mlp", verdict=Judgment(level="clean", sentence="Nothing found."), blocks=(fc,)
        ... )
        >>> report.verdict.level
        'clean'
    """

    title: str
    verdict: Judgment
    blocks: tuple[Block, ...]
    measurements: tuple[Measurement, ...] = ()
    findings: tuple[Finding, ...] = ()
    explained_by: tuple[int | None, ...] = ()
    passed: tuple[str, ...] = ()
    not_checked: Mapping[str, str] = field(default_factory=dict)
    decisive: str = ""
    provenance: Mapping[str, Number] = field(default_factory=dict)
    before: "Report | None" = None
    stages: "tuple[tuple[str, Report], ...]" = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    forecast: Forecast | None = None
    code: str = ""
    outcome: str = ""

    def __repr__(self) -> str:
        """One line: the title and the verdict."""
        return f"<Report of {self.title}: {self.verdict.level}, {self.verdict.sentence}>"

    @property
    def roots(self) -> tuple[RootCause, ...]:
        """The findings that no other one explains, in their order, each with its effects."""
        causes = self.explained_by or (None,) * len(self.findings)
        result = list(zip(self.findings, causes, strict=True))
        return tuple(
            RootCause(
                **{one.name: getattr(root, one.name) for one in fields(Finding)},
                effects=tuple(effect for effect, by in result if by == at),
            )
            for at, (root, cause) in enumerate(result)
            if cause is None
        )

    @property
    def moments(self) -> "list[tuple[str, Report]]":
        """Label and report of each state in the order of time: stages, before and after, or itself.

        Examples:
            >>> clean = Judgment(level="clean", sentence="Nothing found.")
            >>> early = Report(title="mlp", verdict=clean, blocks=())
            >>> late = Report(title="mlp", verdict=clean, blocks=(), before=early)
            >>> [label for label, _ in late.moments]
            ['before', 'after']
        """
        if self.stages:
            return list(self.stages)
        if self.before is not None:
            return [("before", self.before), ("after", self)]
        return [("", self)]

    @property
    def extent(self) -> str:
        """How many blocks the body has, and whether stem and head stand beside them."""
        parts = [block.part for block in self.blocks]
        result = ["stem"] * ("stem" in parts)
        result += [amount(parts.count("body"), "block")] + ["head"] * ("head" in parts)
        return ", ".join(result)
