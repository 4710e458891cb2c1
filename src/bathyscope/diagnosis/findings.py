"""What the rules find, with the severities that follow from the track records."""

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
    silenced: frozenset[str] = frozenset(),
    records: Records | None = None,
) -> tuple[Finding, ...]:
    """Everything the rules find, severest first, without the codes and causes a user has silenced.

    Severities follow from the track records of the codes where they have one.
    """
    every = apply_rules(evidence, thresholds)
    kept = [f for f in every if f.code not in silenced and f.cause not in silenced]
    return in_order(judge_by_record(kept, records), evidence.blocks)
