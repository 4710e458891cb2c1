"""How the gradient fares on its way back: cut, changed by one block, or by all of them together."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from bathyscope.core.records import Block, Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds

_RECURRENT = (
    "A recurrent layer counts as one block, with all its time steps and layers: the factor is that "
    "of all of them together, and by itself no fault."
)


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
    show in the gradient: the first is the cause. A recurrent block is but noted.
    """
    ratios = evidence.column("gradients", "ratio")
    factors = [max(r, 1 / r) if r is not None and 0 < r < math.inf else 1.0 for r in ratios]
    grave, mild = thresholds["norm_ratio"], thresholds["norm_ratio_warning"]
    for severity, low, high, recurrent in (
        (Severity.PROBLEM, grave, math.inf, False),
        (Severity.WARNING, mild, grave, False),
        (Severity.NOTE, mild, math.inf, True),
    ):
        out = [
            i
            for i, factor in enumerate(factors)
            if low < factor <= high and _is_recurrent(evidence.blocks[i]) is recurrent
        ]
        if out:
            told = finding(
                "not-norm-preserving",
                severity,
                evidence.labels(out),
                score=decades(max(factors[i] for i in out)),
                ratio=ratios[out[0]],
                transition=evidence.blocks[out[0]].changes_dimension,
                num_blocks=len(out),
            )
            yield replace(told, why=_RECURRENT) if recurrent else told


def exploding_or_vanishing_gradient(
    evidence: Evidence, thresholds: Thresholds
) -> Iterator[Finding]:
    """The factor between the gradient at the start and at the end of the trunk.

    The blocks named are those that contribute more than their share, in the order of the backward
    pass: where the trouble begins comes first. Recurrent blocks do not count towards its gravity.
    """
    factors = _factors(evidence)
    growth = math.prod(factors.values())
    if not factors or decades(growth) < decades(thresholds["gradient_range_warning"]):
        return
    share = growth ** (1 / len(evidence.blocks))  # what each block would do if all did alike
    # less by rounding: of blocks that all do alike none would be named
    due = share ** (1 - 1e-9)
    guilty = [i for i, f in factors.items() if (f >= due if growth > 1 else f <= due)]
    inputs, outputs = (evidence.column("gradients", name) for name in ("norm_in", "norm_out"))
    told = finding(
        "exploding-gradient" if growth > 1 else "vanishing-gradient",
        _gravity_of_range(evidence, factors, thresholds),
        evidence.labels(guilty[::-1]),
        score=decades(growth),
        gradient_at_first_block=inputs[min(factors)],
        gradient_at_last_block=outputs[max(factors)],
        factor=growth,
        mean_factor_of_a_block=share,
    )
    yield replace(told, why=_RECURRENT) if told.severity is Severity.NOTE else told


def _factors(evidence: Evidence) -> dict[int, float]:
    """By how much the gradient grows from each block's successor's input to its own.

    So what lies between two blocks counts as part of the first, and the product over the blocks is
    the factor of the whole trunk. Blocks that no gradient, or none but zero, reached are left out.
    """
    inputs, outputs = (evidence.column("gradients", name) for name in ("norm_in", "norm_out"))
    reached = [i for i, norm in enumerate(inputs) if norm and math.isfinite(norm)]
    end = outputs[reached[-1]] if reached else None
    if not end or not math.isfinite(end):
        return {}
    norms = [*(inputs[i] or 0.0 for i in reached), end]
    return {i: here / after for i, (here, after) in zip(reached, pairwise(norms), strict=True)}


def _gravity_of_range(
    evidence: Evidence, factors: Mapping[int, float], thresholds: Thresholds
) -> Severity:
    """A problem where the range is extreme, or exponential in depth; a note where time makes it.

    Residual networks grow too, but not exponentially: their blocks tend to norm preservation.
    """
    growth = math.prod(f for i, f in factors.items() if not _is_recurrent(evidence.blocks[i]))
    if decades(growth) < decades(thresholds["gradient_range_warning"]):
        return Severity.NOTE
    share = growth ** (1 / len(evidence.blocks))
    exponential = decades(share) >= decades(thresholds["gradient_factor"])
    limit = thresholds["gradient_range" if exponential else "gradient_range_any"]
    return Severity.PROBLEM if decades(growth) >= decades(limit) else Severity.WARNING


def _is_recurrent(block: Block) -> bool:
    return block.kind in ("RNN", "LSTM", "GRU")


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
