"""Where NaN or infinity comes in: first in the forward pass, else last in the backward pass."""

import math
from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, finding
from bathyscope.diagnosis.thresholds import Thresholds


def not_finite(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The first block whose weights or output are not finite; else the last whose gradient is not.

    Stem and head are looked at too.
    """
    evidence = evidence.everywhere
    weights = evidence.column("weights", "not_finite")
    outputs = evidence.column("activations", "not_finite")
    for i in range(len(evidence.blocks)):
        if weights[i] or outputs[i]:
            yield finding(
                "not-finite",
                Severity.PROBLEM,
                evidence.labels([i]),
                score=100.0,
                where="weights" if weights[i] else "output",
                share_of_weights=weights[i],
                share_of_output=outputs[i],
                blocks_after=sum(bool(o) for o in outputs[i + 1 :]),
            )
            return
    gradients = evidence.column("gradients", "not_finite")
    at_output = evidence.column("gradients", "norm_out")
    bad = [i for i, share in enumerate(gradients) if share]
    if bad:
        last = bad[-1]
        # not finite already at its output: it came in between this block and the next
        outside = last + 1 < len(evidence.blocks) and not _is_finite(at_output[last])
        yield finding(
            "not-finite",
            Severity.PROBLEM,
            evidence.labels([last, last + 1] if outside else [last]),
            score=90.0,
            where="gradient",
            share_of_gradient=gradients[last],
            blocks_before=len(bad) - 1,
        )


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
