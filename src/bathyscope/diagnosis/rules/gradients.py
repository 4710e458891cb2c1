"""How the gradient fares on its way back: cut, changed by one block, or by all of them together."""

import math
from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds


def cut_gradient(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The block at whose output no gradient arrives though the blocks after it have one.

    A gradient of zero at the end of the trunk is not a cut: a last layer that starts at zero gives it,
    and lets the gradient through from the second step on.
    """
    at_input = evidence.column("gradients", "norm_in")
    at_output = evidence.column("gradients", "norm_out")
    trained = any(n is not None for n in evidence.column("parameter_gradients", "norm"))
    # the first block with a gradient at its output; past the last one if none has
    first = next((i for i, norm in enumerate(at_output) if norm), len(evidence.blocks))
    here = [i for i in (first - 1, first) if 0 <= i < len(evidence.blocks)]
    if trained and first and (first == len(evidence.blocks) or not at_input[first]):
        yield finding(
            "cut-gradient",
            Severity.WARNING if at_output[-1] == 0 else Severity.PROBLEM,
            evidence.labels(here),
            score=40.0,
            gradient_after=at_output[first] if first < len(at_output) else None,
            blocks_without_gradient=first,
        )


def not_norm_preserving(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks that change the norm of the gradient by a large factor, in the order of the forward pass.

    What one block does to the scale of the signal, the normalisation in the next undoes, and both
    show in the gradient: the first is the cause.
    """
    ratios = evidence.column("gradients", "ratio")
    factors = [max(r, 1 / r) if r is not None and 0 < r < math.inf else 1.0 for r in ratios]
    for severity, low, high in (
        (Severity.PROBLEM, thresholds["norm_ratio"], math.inf),
        (Severity.WARNING, thresholds["norm_ratio_warning"], thresholds["norm_ratio"]),
    ):
        out = [i for i, factor in enumerate(factors) if low < factor <= high]
        if out:
            yield finding(
                "not-norm-preserving",
                severity,
                evidence.labels(out),
                score=decades(max(factors[i] for i in out)),
                ratio=ratios[out[0]],
                transition=evidence.blocks[out[0]].changes_dimension,
                num_blocks=len(out),
            )


def exploding_or_vanishing_gradient(
    evidence: Evidence, thresholds: Thresholds
) -> Iterator[Finding]:
    """The factor between the gradient at the start and at the end of the trunk.

    The blocks named are those that contribute more than their share, in the order of the backward
    pass: where the trouble begins comes first.
    """
    inputs = evidence.column("gradients", "norm_in")
    outputs = evidence.column("gradients", "norm_out")
    ratios = evidence.column("gradients", "ratio")
    start = next((n for n in inputs if n is not None), None)
    end = next((n for n in reversed(outputs) if n is not None), None)
    if not start or not end or not math.isfinite(start) or not math.isfinite(end):
        return
    growth = start / end
    if decades(growth) < decades(thresholds["gradient_range_warning"]):
        return
    grows = growth > 1
    share = growth ** (1 / len(evidence.blocks))  # what each block would do if all did alike
    # residual networks grow too, but not exponentially: their blocks tend to norm preservation
    grave = decades(growth) >= decades(thresholds["gradient_range"]) and decades(share) >= decades(
        thresholds["gradient_factor"]
    )
    per_block = [1 / r if r is not None and 0 < r < math.inf else None for r in ratios]
    guilty = [
        i
        for i, factor in enumerate(per_block)
        if factor is not None and (factor >= share if grows else factor <= share)
    ]
    yield finding(
        "exploding-gradient" if grows else "vanishing-gradient",
        Severity.PROBLEM if grave else Severity.WARNING,
        evidence.labels(guilty[::-1]),
        score=decades(growth),
        gradient_at_first_block=start,
        gradient_at_last_block=end,
        factor=growth,
        mean_factor_of_a_block=share,
    )


def flat_start(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Every block has a layer of zeros, and no layer of any block a gradient, though the loss has one."""
    shares = evidence.column("parameter_gradients", "share")
    outputs = evidence.column("gradients", "norm_out")
    zeros = evidence.column("weights", "zero_layers")
    if shares and all(s == 0 for s in shares) and all(zeros) and any(outputs):
        yield finding(
            "flat-start",
            Severity.PROBLEM,
            evidence.labels(range(len(evidence.blocks))),
            score=40.0,
            zero_layers=sum(z or 0 for z in zeros),
            gradient_at_last_block=outputs[-1],
        )
