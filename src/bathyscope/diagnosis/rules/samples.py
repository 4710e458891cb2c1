"""What the batch itself cannot show."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, finding
from bathyscope.diagnosis.thresholds import Thresholds


def equal_samples(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A batch that is one sample several times: the rules on differences between samples are left out."""
    if evidence.samples_equal:
        yield finding("equal-samples", Severity.NOTE, (), score=0.0)
