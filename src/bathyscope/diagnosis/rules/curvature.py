"""What the second derivative says: a start that is flat to second order, a rate above the stable one."""

from collections.abc import Iterator
from dataclasses import replace

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds


def flat_to_second_order(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """No layer of any block has a gradient, and no product with their Hessian is other than zero.

    Layers outside the blocks (a head) may have both.
    """
    found = evidence.measurements.get("curvature")
    shares = evidence.column("parameter_gradients", "share")
    traces = evidence.column("curvature", "trace")
    spread = evidence.column("curvature", "trace_error")
    if found is None or not shares or not any(evidence.column("gradients", "norm_out")):
        return
    if all(s == 0 for s in shares) and all(t == 0 for t in traces) and all(e == 0 for e in spread):
        yield finding(
            "flat-to-second-order",
            Severity.PROBLEM,
            evidence.labels(range(len(evidence.blocks))),
            score=40.0,
            largest_eigenvalue=found.settings.get("largest"),
            smallest_eigenvalue=found.settings.get("smallest"),
            products=found.settings.get("products"),
        )


def unstable_rate(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A learning rate far above 2(1 + β)/λmax, with the greatest one that is stable."""
    found = evidence.measurements.get("curvature")
    if found is None or "stable_rate" not in found.settings:
        return
    rate, stable = found.settings["learning_rate"], found.settings["stable_rate"]
    times = rate / stable
    if times <= thresholds["unstable_rate"]:
        return
    largest = evidence.column("curvature", "largest")
    known = [i for i, value in enumerate(largest) if value is not None]
    order = sorted(known, key=lambda i: -(largest[i] or 0.0))
    told = finding(
        "unstable-rate",
        Severity.PROBLEM if times > thresholds["unstable_rate_grave"] else Severity.WARNING,
        evidence.labels(order[:1]),
        score=decades(times),
        learning_rate=rate,
        stable_rate=stable,
        times=times,
        largest_eigenvalue=found.settings["largest"],
    )
    yield replace(told, remedy=f"Lower the learning rate from {rate:.2g} to {stable:.2g} or less.")
