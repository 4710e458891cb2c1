"""What the rules find, with the severities that follow from the track records.

A track record is how often random networks that had a finding really failed to train. The counts lie
beside this file; `tools/track_record` in the repository makes them.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.causes import in_order
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.registry import apply_rules
from bathyscope.rules.rule import Thresholds

FILE = "track_record.json"
BUDGET = 300

ENOUGH = 20
"""Networks below which a code has no record of its own, only the tests with planted faults."""

PROBLEM = 0.9
"""Fraction of the networks that failed from which on a finding is a problem."""


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """How the networks with a finding of one code and severity ended within 300 steps.

    Attributes:
        networks: with the finding.
        failed: of these.
        trained: of these.
        alone: of these, nothing graver was found in them.
        alone_failed: of those.
    """

    networks: int
    failed: int
    trained: int
    alone: int = 0
    alone_failed: int = 0

    def severity(self, given: Severity) -> Severity:
        """The severity that follows: a problem where nine in ten failed, and only there.

        What the rule holds for less is raised by networks with nothing graver alone: where a problem
        stands beside it, the failure may be the problem's.

        Examples:
            >>> TrackRecord(40, 39, 1, alone=30, alone_failed=29).severity(Severity.WARNING).value
            'problem'
            >>> TrackRecord(40, 39, 1, alone=2, alone_failed=2).severity(Severity.WARNING).value
            'warning'
            >>> TrackRecord(40, 20, 9).severity(Severity.PROBLEM).value
            'warning'
            >>> TrackRecord(4, 1, 3).severity(Severity.PROBLEM).value
            'problem'
        """
        if given is Severity.PROBLEM:
            holds = self.networks < ENOUGH or self.failed >= PROBLEM * self.networks
            return given if holds else Severity.WARNING
        raised = self.alone >= ENOUGH and self.alone_failed >= PROBLEM * self.alone
        return Severity.PROBLEM if raised else given


Records = Mapping[str, Mapping[str, TrackRecord]]
"""By code, then by the severity that the rule gave."""


def findings_of(
    evidence: Evidence,
    thresholds: Thresholds,
    *,
    silenced: Collection[str] = (),
    records: Records | None = None,
) -> tuple[Finding, ...]:
    """Everything the rules find, severest first, without the codes and causes a user has silenced.

    Severities follow from the track records of the codes where they have one.
    """
    return split_findings(evidence, thresholds, silenced=silenced, records=records)[0]


def split_findings(
    evidence: Evidence,
    thresholds: Thresholds,
    *,
    silenced: Collection[str],
    records: Records | None = None,
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """See `findings_of`; and beside them those that were silenced."""
    kept: list[Finding] = []
    left_out: list[Finding] = []
    for finding in apply_rules(evidence, thresholds):
        is_silenced = finding.code in silenced or finding.cause in silenced
        (left_out if is_silenced else kept).append(finding)

    def ranked(findings: list[Finding]) -> tuple[Finding, ...]:
        return in_order(judge_by_record(findings, records), evidence.blocks)

    return ranked(kept), ranked(left_out) if left_out else ()


def judge_by_record(findings: Iterable[Finding], records: Records | None = None) -> list[Finding]:
    """The findings with the severities that follow from their track records."""
    known = track_records() if records is None else records
    judged = []
    for finding in findings:
        record = known.get(finding.code, {}).get(finding.severity.value)
        severity = finding.severity if record is None else record.severity(finding.severity)
        judged.append(
            finding if severity is finding.severity else replace(finding, severity=severity)
        )
    return judged


def describe_record(code: str, records: Records | None = None) -> str:
    """What became of the networks with a finding, as a sentence."""
    known = (track_records() if records is None else records).get(code, {})
    if sum(record.networks for record in known.values()) < ENOUGH:
        return "Planted tests only."
    result = [
        f"{record.failed} of {record.networks} random networks with it as a {severity} failed "
        f"to train within {BUDGET} steps, {record.trained} trained"
        for severity, record in known.items()
        if record.networks
    ]
    return "; ".join(result) + "."


@cache
def track_records() -> Records:
    """Those that come with the package; none where the table has not been diagnosed yet."""
    path = resources.files("bathyscope.diagnosis").joinpath(FILE)
    if not path.is_file():
        return {}
    written = json.loads(path.read_text(encoding="utf-8"))["codes"]
    return {
        code: {severity: TrackRecord(**counts) for severity, counts in kinds.items()}
        for code, kinds in written.items()
    }
