"""A diagnosis: what was measured, what was found, and how it compares with another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.records import CAUSES, Finding, Measurement, Number, RootCause, Severity
from bathyscope.diagnosis.checks import checks_of, decisive_quantity
from bathyscope.diagnosis.difference import Difference, difference_of
from bathyscope.foresight import stage_label
from bathyscope.foresight.record import Forecast
from bathyscope.measure.around import with_around
from bathyscope.report.numbers import amount
from bathyscope.report.record import Judgment, Report
from bathyscope.report.reported import Reported
from bathyscope.rules.findings import roots_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What was diagnosed and how, kept so that it can be measured again; the optimizer is the user's own."""

    batch: Batch
    loss: LossFn
    options: Mapping[str, Any] = field(default_factory=dict)
    optimizer: torch.optim.Optimizer | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Diagnosis(Reported):
    """The answer of `diagnose`.

    Attributes:
        title: the model's name.
        blocks: where was measured.
        measurements: by name; each holds one value per block and column, `around` those of stem and head.
        findings: most severe first.
        provenance: versions, hardware, dtype, mode, batch.
        setting: the batch and the loss, for `treat` and for measuring again.
        stages: diagnoses of the same model after this many steps, from the look-ahead.
        notes: what a reader must know.
        forecast: whether it will train, with `probes="full"`.
        silenced: findings of the model as it was given that were not to be reported.
    """

    title: str
    blocks: Blocks
    measurements: Mapping[str, Measurement]
    findings: tuple[Finding, ...]
    provenance: Mapping[str, Number]
    setting: Setting
    stages: tuple[tuple[int, "Diagnosis"], ...] = ()
    notes: tuple[str, ...] = ()
    forecast: Forecast | None = None
    silenced: tuple[Finding, ...] = ()

    @property
    def severity(self) -> Severity | None:
        """The highest severity found; None for a clean bill."""
        return max((f.severity for f in self.findings), key=lambda s: s.rank, default=None)

    @property
    def roots(self) -> tuple[RootCause, ...]:
        """The findings that no other one explains, severest first, each with its `effects`."""
        return roots_of(self.findings, self.blocks.rows)

    def findings_of(self, cause: str) -> tuple[Finding, ...]:
        """The findings whose fault lies in one part of the training, most severe first.

        Raises:
            UnknownName: there is no such cause.
        """
        if cause not in CAUSES:
            raise UnknownName("cause", cause, CAUSES)
        return tuple(f for f in self.findings if f.cause == cause)

    @property
    def verdict(self) -> str:
        """One sentence: what is wrong, first of all, and where."""
        return self.report().verdict.sentence

    @property
    def table(self) -> "pd.DataFrame":
        """One row per block, in the order of the forward pass; columns are `measurement.column`.

        `part` separates the blocks of the body from stem and head, which stand before and after them.
        """
        import pandas as pd

        every = self.blocks.rows
        rows = {
            "block": [b.label for b in every],
            "part": [b.part for b in every],
            "kind": [b.kind for b in every],
            "changes_dimension": [b.changes_dimension for b in every],
            "findings": [
                ", ".join(f.code for f in self.findings if b.label in f.blocks) for b in every
            ],
        }
        for name, measurement in with_around(self.measurements, self.blocks).items():
            for column, values in measurement.columns.items():
                rows[f"{name}.{column}"] = list(values)
        return pd.DataFrame(rows).set_index("block")

    @property
    def worst_first(self) -> "pd.DataFrame":
        """The table with the blocks of the most severe findings on top."""
        order = {label: -1 - i for i, f in enumerate(reversed(self.findings)) for label in f.blocks}
        table = self.table
        return table.iloc[sorted(range(len(table)), key=lambda i: order.get(table.index[i], 0))]

    def report(self) -> Report:
        """The records alone, for `bathyscope.report`."""
        roots = self.roots
        checks = checks_of(
            self.measurements,
            self.findings,
            silenced=self.setting.options.get("silence"),
            is_full=bool(self.stages),
        )
        return Report(
            title=self.title,
            verdict=judgment(roots, len(self.blocks)),
            blocks=tuple(self.blocks.rows),
            measurements=tuple(with_around(self.measurements, self.blocks).values()),
            findings=self.findings,
            explained_by=_explained_by(self.findings, roots),
            passed=checks.passed,
            not_checked=checks.not_checked,
            decisive=decisive_quantity(roots[0]) if roots else "",
            provenance=self.provenance,
            stages=tuple((stage_label(step), stage.report()) for step, stage in self.stages),
            notes=self.notes,
            forecast=self.forecast,
        )

    def diff(self, earlier: "Diagnosis | Report | str | Path") -> Difference:
        """What changed since an earlier diagnosis, given as such or as its saved JSON: did it help?

        Raises:
            UsageError: it is something else, or the file cannot be read.
        """
        from bathyscope import report

        if isinstance(earlier, (str, Path)):
            earlier = report.read_report(Path(earlier))
        before = earlier.report() if isinstance(earlier, Diagnosis) else earlier
        if not isinstance(before, Report):
            raise UsageError(
                f"A diagnosis is compared with another or with its saved JSON, but a "
                f"{type(earlier).__name__} was given; of a treatment, give .before or .after."
            )
        return difference_of(before, self.report())

    def __repr__(self) -> str:
        """One line: the title and the verdict."""
        return f"<Diagnosis of {self.title}: {self.verdict}>"


def _explained_by(
    findings: tuple[Finding, ...], roots: tuple[RootCause, ...]
) -> tuple[int | None, ...]:
    """For each finding the index of its root cause; None for a root."""

    def location(wanted: Finding) -> int:
        names = [one.name for one in fields(Finding)]
        return next(
            at
            for at, finding in enumerate(findings)
            if all(getattr(finding, name) is getattr(wanted, name) for name in names)
        )

    causes = {location(effect): location(root) for root in roots for effect in root.effects}
    return tuple(causes.get(at) for at in range(len(findings)))


def judgment(roots: Sequence[RootCause], num_blocks: int) -> Judgment:
    """The verdict that follows from the root causes.

    Examples:
        >>> judgment((), 12).sentence
        'No fault found in 12 blocks.'
    """
    if not roots:
        return Judgment(level="clean", sentence=f"No fault found in {amount(num_blocks, 'block')}.")
    first = roots[0]
    where = f", in {first.block_range}" if first.block_range else _where(first.blocks, num_blocks)
    more = f" (and {amount(len(roots) - 1, 'more finding')})" if len(roots) > 1 else ""
    return Judgment(level=first.severity.value, sentence=f"{first.title}{where}{more}.")


def _where(blocks: tuple[str, ...], num_blocks: int) -> str:
    if not blocks:
        return ""
    if len(blocks) == 1:
        return f", at block {blocks[0]}"
    if len(blocks) == num_blocks:
        return ", in every block"
    return f", at block {blocks[0]} and {len(blocks) - 1} other{'s' if len(blocks) > 2 else ''}"
