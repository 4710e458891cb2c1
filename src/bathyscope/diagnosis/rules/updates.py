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
    the largest steps of many a healthy network. A layer that a batch norm follows may take a longer
    step, as long as that lowers the loss.
    """
    evidence = evidence.everywhere
    ratios = evidence.column("updates", "largest_ratio")
    layers = evidence.words("updates", "largest_ratio_layer")
    limits = _limits(evidence, thresholds)
    large = [
        i for i, r in enumerate(ratios) if r is not None and r > thresholds["large_update_warning"]
    ]
    grave = [i for i in large if (ratios[i] or 0.0) > limits[i]]
    mild = [i for i in large if i not in grave and evidence.blocks[i].part == "trunk"]
    for severity, out in ((Severity.PROBLEM, grave), (Severity.WARNING, mild)):
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
            yield told if (ratios[out[0]] or 0.0) > 1.0 else replace(told, title=_SIZEABLE)


def _limits(evidence: Evidence, thresholds: Thresholds) -> list[float]:
    """The step of each block from which on it is a problem."""
    before = evidence.about("output").number("loss")
    after = evidence.about("step").number("loss_after")
    lowers = before is not None and after is not None and after < before
    norms = evidence.column("normalisation", "variance_over_epsilon")
    usual, normalised = thresholds["large_update"], thresholds["large_update_normalised"]
    return [usual if norm is None or not lowers else max(usual, normalised) for norm in norms]


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
