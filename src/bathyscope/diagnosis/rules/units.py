"""Units that never change, branches that add nothing, norms that hide what is before them."""

from collections.abc import Iterator
from dataclasses import replace

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds


def _with_reasons_of_saturation(told: Finding) -> Finding:
    """The finding with reasons for activations that are flat at both ends."""
    return replace(
        told,
        why="A unit that never changes tells no samples apart; at the flat end of its activation it "
        "passes next to no gradient either.",
        source="the slope of a sigmoid is at most 1/4 and vanishes at both ends",
        remedy="Use an activation that keeps the signal's variety (ReLU with its He start), put a "
        "normalisation or a shortcut in, or start with larger weights.",
    )


def dead_units(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks, stem or head most of whose units give one value for the whole batch, the worst first."""
    evidence = evidence.everywhere
    shares = evidence.column("activations", "dead_units")
    names = evidence.words("activations", "nonlinearity")
    limit = thresholds["dead_share"]
    for severity, low, high in (
        (Severity.PROBLEM, limit, 1.01),
        (Severity.WARNING, limit / 1.5, limit),
    ):
        out = [i for i, share in enumerate(shares) if share is not None and low <= share < high]
        if out:
            out.sort(key=lambda i: -(shares[i] or 0.0))
            told = finding(
                "dead-units",
                severity,
                evidence.labels(out),
                score=shares[out[0]] or 0.0,
                dead_share=shares[out[0]],
                nonlinearity=names[out[0]],
                num_blocks=len(out),
            )
            saturates = names[out[0]] not in (None, "relu", "leaky_relu", "relu6")
            yield _with_reasons_of_saturation(told) if saturates else told


def silent_branch(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Residual blocks whose branch is lost in the addition.

    A branch that starts at zero by its last layer, or the scale of its last norm, alone is meant so:
    it receives a gradient there and moves at the first step. One that neither gives nor receives is
    the problem.
    """
    changes = evidence.column("activations", "change")
    layers = evidence.column("parameter_gradients", "share")
    scales = evidence.column("parameter_gradients", "scale_share")
    reached = [max(a or 0.0, b or 0.0) for a, b in zip(layers, scales, strict=True)]
    silent = [
        i
        for i, change in enumerate(changes)
        if change is not None and change < thresholds["silent_change"]
    ]
    stuck = [i for i in silent if reached[i] < thresholds["silent_change"]]
    if stuck and len(stuck) < len(evidence.blocks):
        smallest = min(changes[i] or 0.0 for i in stuck)
        yield finding(
            "silent-branch",
            Severity.PROBLEM,
            evidence.labels(stuck),
            score=decades(max(smallest, 1e-40)),
            change=smallest,
            gradient_share=reached[stuck[0]],
            num_blocks=len(stuck),
        )


def batchnorm_masks(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Batch norms whose input varies by less than their ε, the worst first."""
    variances = evidence.column("normalisation", "variance_over_epsilon")
    layers = evidence.words("normalisation", "layer")
    out = [i for i, v in enumerate(variances) if v is not None and v < thresholds["norm_variance"]]
    if out:
        out.sort(key=lambda i: variances[i] or 0.0)
        worst = variances[out[0]] or 0.0
        yield finding(
            "batchnorm-masks",
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(worst, 1e-40)),
            variance_over_epsilon=worst,
            layer=layers[out[0]],
            num_blocks=len(out),
        )
