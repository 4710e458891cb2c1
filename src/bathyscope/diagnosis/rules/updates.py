"""Steps of the optimizer that are as large as the weights, or too small to change them."""

from collections.abc import Iterator
from dataclasses import replace

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds

_SIZEABLE = "Steps that are a good part of the weights"


def large_update(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with a layer that one step would replace, the worst first.

    Stem and head are told where a step replaces them, not where it is a good part of them: theirs are
    the largest steps of many a healthy network.
    """
    evidence = evidence.everywhere
    ratios = evidence.column("updates", "largest_ratio")
    layers = evidence.words("updates", "largest_ratio_layer")
    parts = [block.part for block in evidence.blocks]
    grave, mild = thresholds["large_update"], thresholds["large_update_warning"]
    for severity, low, high in (
        (Severity.PROBLEM, grave, float("inf")),
        (Severity.WARNING, mild, grave),
    ):
        out = [i for i, r in enumerate(ratios) if r is not None and low < r <= high]
        if severity is Severity.WARNING:
            out = [i for i in out if parts[i] == "trunk"]
        if out:
            out.sort(key=lambda i: -(ratios[i] or 0.0))
            told = finding(
                "large-update",
                severity,
                evidence.labels(out),
                score=decades(ratios[out[0]] or 1.0),
                update_ratio=ratios[out[0]],
                layer=layers[out[0]],
                num_blocks=len(out),
            )
            yield told if severity is Severity.PROBLEM else replace(told, title=_SIZEABLE)


def small_update(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks that have a gradient, but whose step is lost in rounding, the worst first."""
    ratios = evidence.column("updates", "ratio")
    gradients = evidence.column("parameter_gradients", "share")
    out = [
        i
        for i, r in enumerate(ratios)
        if r is not None and r < thresholds["small_update"] and gradients[i]
    ]
    if out:
        out.sort(key=lambda i: ratios[i] or 0.0)
        yield finding(
            "small-update",
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(ratios[out[0]] or 0.0, 1e-40)),
            update_ratio=ratios[out[0]],
            gradient_share=gradients[out[0]],
            num_blocks=len(out),
        )
