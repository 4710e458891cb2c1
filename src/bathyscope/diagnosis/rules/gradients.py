"""How the gradient fares on its way back: cut, changed by one block, or by all of them together."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from bathyscope.core.records import Block, Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, cause_of_squashing, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds
from bathyscope.measure.gradients import RECURRENT

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
    parameters = evidence.about("parameters")
    if parameters.number("zero_gradient") == (parameters.number("reached") or -1):
        return  # nothing at all has a gradient: no place in the trunk is to blame
    if parameters.holds("zero_head") and at_output and at_output[-1] == 0:
        return
    trained = any(n is not None for n in evidence.column("parameter_gradients", "norm"))
    # the first block with a gradient at its output; past the last one if none has
    first = next((i for i, norm in enumerate(at_output) if norm), len(evidence.blocks))
    # what this pass left out, as stochastic depth does, has no gradient and cuts none
    ran = [n is not None for n in evidence.column("activations", "not_finite")]
    if any(ran) and not any(ran[:first]):
        return
    here = [i for i in (first - 1, first) if 0 <= i < len(evidence.blocks)]
    # a block after the cut may have a gradient at its input where a parameter restarts the graph
    before = evidence.column("parameter_gradients", "norm")[:first]
    restarted = any(n is not None for n in before) and all(n is None for n in at_output[:first])
    cut = first == len(evidence.blocks) or not at_input[first] or restarted
    if trained and first and cut:
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
    show in the gradient: the first is the cause. A recurrent block is but noted, and so is a first
    block that does it mildly.
    """
    ratios = evidence.column("gradients", "ratio")
    factors = [max(r, 1 / r) if r is not None and 0 < r < math.inf else 1.0 for r in ratios]
    grave, mild = thresholds["norm_ratio"], thresholds["norm_ratio_warning"]
    # before the first block there is but a stem or embedding whose scale it sets
    mildly = [i for i, f in enumerate(factors) if mild < f <= grave]
    groups: dict[Severity, list[int]] = {
        Severity.PROBLEM: [i for i, f in enumerate(factors) if f > grave],
        Severity.WARNING: [i for i in mildly if i],
        Severity.NOTE: [i for i in mildly if not i],
    }
    timed = {i for i, block in enumerate(evidence.blocks) if _is_recurrent(block)}
    told_of = [(s, [i for i in of if i not in timed], False) for s, of in groups.items()]
    told_of.append(
        (Severity.NOTE, sorted(i for of in groups.values() for i in of if i in timed), True)
    )
    for severity, out, recurrent in told_of:
        if out:
            told = finding(
                "not-norm-preserving",
                severity,
                evidence.labels(out),
                score=decades(max(factors[i] for i in out)),
                growth=1 / (ratios[out[0]] or 1.0),  # above 1: it grows on its way back
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
        cause=cause_of_squashing(evidence, guilty) if growth < 1 else None,
        gradient_at_first_block=inputs[min(factors)],
        gradient_at_last_block=outputs[max(factors)],
        factor=growth,
        mean_factor_of_a_block=share,
    )
    yield replace(told, why=_RECURRENT) if told.severity is Severity.NOTE else told


def vanishing_over_time(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Recurrent layers at whose first time steps no gradient is left."""
    ratios = evidence.column("gradients", "over_time")
    out = [i for i, r in enumerate(ratios) if r is not None and r < thresholds["over_time"]]
    if out:
        told = finding(
            "vanishing-gradient",
            Severity.WARNING,
            evidence.labels(out),
            score=decades(max(ratios[out[0]] or 0.0, 1e-40)),
            first_steps_over_last=ratios[out[0]],
        )
        yield replace(
            told,
            why="Along the sequence the gradient fades below rounding: what comes early in it is not "
            "learnt from.",
            source="Bengio, Simard, Frasconi 1994",
            remedy="Shorten or split the sequences, use a gated cell with its forget bias at 1, or "
            "attention over the time steps.",
        )


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
    return block.kind in RECURRENT


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
