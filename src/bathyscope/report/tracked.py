"""Findings in a tracker of experiments, beside the numbers of the run."""

from collections.abc import Sequence

from bathyscope.core.records import Finding, Severity
from bathyscope.core.trackers import TextTracker, Tracker
from bathyscope.report.ci_formats import sentence

_SEVERITIES = (Severity.NOTE, Severity.WARNING, Severity.PROBLEM)


def log_findings(tracker: Tracker, findings: Sequence[Finding], step: int) -> None:
    """Each as `finding/code`: 1 for a note, 2 for a warning, 3 for a problem; its text where it takes one.

    Of several findings with one code the first, which is the severest, is written.
    """
    for finding in {f.code: f for f in reversed(findings)}.values():
        name = f"finding/{finding.code}"
        tracker.log_number(name, float(_SEVERITIES.index(finding.severity) + 1), step)
        if isinstance(tracker, TextTracker):
            tracker.log_text(name, f"{finding.severity}: {sentence(finding)}", step)
