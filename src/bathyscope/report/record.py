"""What a report is made of: records only, nothing that measures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bathyscope.core.forecast import Forecast
from bathyscope.core.records import Block, Finding, Measurement, Number
from bathyscope.report.numbers import amount

Level = Literal["clean", "note", "warning", "problem"]
"""How a network fares on the whole, best first."""

Curve = Sequence[tuple[float | int, float | int | None]]
"""Pairs of a step and a value, in the order of the steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a network: a level and one sentence that says it in plain words."""

    level: Level
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that is told about one network at one moment.

    Args:
        title: the model's name.
        verdict: said first, wherever the report is shown.
        blocks: the blocks of the trunk, first to last, with those of stem and head around them.
        measurements: the quantities; each has its own blocks, which may be some of `blocks`.
        findings: ranked, gravest first; they name blocks by `Block.label`.
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
        ...     title="mlp", verdict=Judgement(level="clean", sentence="Nothing found."), blocks=(fc,)
        ... )
        >>> report.verdict.level
        'clean'
    """

    title: str
    verdict: Judgement
    blocks: tuple[Block, ...]
    measurements: tuple[Measurement, ...] = ()
    findings: tuple[Finding, ...] = ()
    provenance: Mapping[str, Number] = field(default_factory=dict)
    before: "Report | None" = None
    stages: "tuple[tuple[str, Report], ...]" = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    forecast: Forecast | None = None
    code: str = ""
    outcome: str = ""

    @property
    def extent(self) -> str:
        """How many blocks the trunk has, and whether stem and head stand beside them."""
        parts = [block.part for block in self.blocks]
        told = ["stem"] * ("stem" in parts)
        told += [amount(parts.count("trunk"), "block")] + ["head"] * ("head" in parts)
        return ", ".join(told)
