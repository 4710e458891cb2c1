"""Networks of the NEst family: room for their features, and prediction weights worth having."""

from collections.abc import Iterator

from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, finding
from bathyscope.diagnosis.thresholds import Thresholds


def narrow_residual_space(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A ResNEst whose features cannot be read back from their sum: [W_0 … W_{L−1}] lacks rank.

    A note by itself; a warning where the batch shows that the best prediction weights lose by it.
    """
    told = _told(evidence)
    needed, rank = told.get("width_needed"), told.get("rank")
    if needed is None or rank is None or rank >= needed:
        return
    lost = None
    if told.get("attainable_risk") is not None:
        lost = (told["attainable_risk"] - told["bound"]) / told["constant_risk"]
    grave = lost is not None and lost > thresholds["width_loss"]
    yield finding(
        "narrow-residual-space",
        Severity.WARNING if grave else Severity.NOTE,
        evidence.last_block,
        score=(needed - rank) / needed,
        width=told["width"],
        rank=rank,
        features=needed,
        width_wanted=needed + told.get("num_outputs", 0),
        share_of_risk_lost=lost,
    )


def worse_than_linear(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A network that predicts the batch worse than the best linear function of its input."""
    told = _told(evidence)
    if "linear_risk" not in told or told["linear_risk"] <= 0:
        return
    excess = told["risk"] / told["linear_risk"]
    reachable = told["attainable_risk"] if told["attainable_risk"] is not None else told["bound"]
    if excess > thresholds["linear_excess"] and reachable < told["risk"]:
        yield finding(
            "worse-than-linear",
            Severity.WARNING,
            evidence.last_block,
            score=excess,
            risk=told["risk"],
            linear_risk=told["linear_risk"],
            reachable_risk=reachable,
        )


def _told(evidence: Evidence) -> JsonObject:
    found = evidence.measurements.get("certificate")
    return {} if found is None else dict(found.settings)
