"""What the rules find, with the severities that follow from the track records."""

from collections.abc import Collection

from bathyscope.core.records import Finding
from bathyscope.diagnosis.track_record import Records, judge_by_record
from bathyscope.rules.causes import in_order
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.registry import apply_rules
from bathyscope.rules.thresholds import Thresholds


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
