"""The page of a training loop: what was watched, what was found, and the settings as they really were."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bathyscope.core.files import check_location, write_atomic
from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, RootCause, Severity
from bathyscope.report.loop_settings import loss_divisor, settings_curves
from bathyscope.report.page import to_html
from bathyscope.report.record import Curve, Judgment, Level, Report
from bathyscope.rules.registry import all_rules

LEVELS: dict[Severity, Level] = {
    Severity.PROBLEM: "problem",
    Severity.WARNING: "warning",
    Severity.NOTE: "note",
}


@dataclass(frozen=True, slots=True)
class LoopReport:
    """What is reported of a loop."""

    title: str
    watched: str
    record: LoopRecord
    findings: tuple[Finding, ...]
    roots: tuple[RootCause, ...]
    not_checked: tuple[str, ...]
    first_step: Report | None = None
    at_constant: str = ""

    def to_json(self) -> str:
        """Findings, what was not checked, and all rows."""
        return json.dumps(_plain(dataclasses.replace(self, first_step=None)), indent=1)

    def report(self) -> Report:
        """The findings with the settings in effect as curves, over the measurements of the first step."""
        ordered: list[Finding] = []
        causes: list[int | None] = []
        for root in self.roots:
            at = len(ordered)
            ordered += [root, *root.effects]
            causes += [None, *[at] * len(root.effects)]
        base = self.first_step or Report(title="", verdict=_CLEAN, blocks=())
        return dataclasses.replace(
            base,
            title=self.title,
            verdict=_verdict(self.roots, self.at_constant),
            findings=tuple(ordered),
            explained_by=tuple(causes),
            outcome=f"{self.watched[:1].upper()}{self.watched[1:]}.",
            not_checked=_without_watched(base.not_checked, self.record),
            curves=_curves(self.record),
            decisive=base.decisive if _begins_with(base, self.roots) else "",
            notes=(*(f"Not checked: {note}" for note in self.not_checked), *base.notes),
        )

    def to_html(self) -> str:
        """A page by itself."""
        return to_html(self.report())

    def save(self, path: Path) -> None:
        """Write the page, or JSON for any other ending than `.html`.

        Raises:
            UsageError: the file cannot be written.
        """
        check_location(path)
        text = self.to_html() if path.suffix == ".html" else self.to_json()
        write_atomic(path, text.encode())


def _begins_with(first: Report, roots: Sequence[RootCause]) -> bool:
    """Whether what is said first of a loop is what is said first of its first step."""
    return bool(roots and first.roots) and roots[0].code == first.roots[0].code


def _without_watched(reasons: Mapping[str, str], record: LoopRecord) -> dict[str, str]:
    """The checks that were not made of the first step, without those that the loop itself was put to."""
    rules = all_rules() if record.steps else {}
    watched = {code for code, rule in rules.items() if rule.find_in_loop is not None}
    return {code: reason for code, reason in reasons.items() if code not in watched}


_CLEAN = Judgment(
    level="clean", sentence="Nothing is wrong with the loop, as far as it was watched."
)


def _verdict(roots: Sequence[RootCause], at_constant: str) -> Judgment:
    """The first root cause, and how many more there are; or that nothing was learned without one."""
    if not roots:
        return Judgment(level="note", sentence=at_constant) if at_constant else _CLEAN
    rest = len(roots) - 1
    more = f" (and {rest} more finding{'s' * (rest != 1)})" * bool(rest)
    title = f"{roots[0].title[:1].upper()}{roots[0].title[1:]}"
    return Judgment(level=LEVELS[roots[0].severity], sentence=f"{title}{more}.")


def _curves(record: LoopRecord) -> dict[str, Curve]:
    """Loss, learning rate as set and in effect, what makes the difference, size of the updates."""
    rows, divisor = record.rows, loss_divisor(record)
    every: dict[str, Curve] = {
        "loss": [(r.step, None if r.loss is None else r.loss * divisor) for r in rows],
        **settings_curves(record),
        "clip factor": [(r.step, r.clip_factor) for r in rows if r.clip_factor is not None],
        "loss scale": [(r.step, r.loss_scale) for r in rows],
        "micro-batches per step": [(r.step, float(r.micro_batches)) for r in rows],
        "update over weight": [(r.step, r.update_ratio) for r in rows],
    }
    known = {
        name: [(step, value) for step, value in curve if value is not None]
        for name, curve in every.items()
    }
    return {name: curve for name, curve in known.items() if len(curve) > 1}


def _plain(value: object) -> object:
    """Without NaN, which JSON does not know, and with names for the keys of counts."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
