"""The gradient during backpropagation: flat, cut, changed by one block, or by all of them together."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from bathyscope.core.records import Block, Finding, Severity
from bathyscope.rules.evidence import Evidence, cause_of_squashing, decades
from bathyscope.rules.families.parameter_lists import at_its_line
from bathyscope.rules.rule import (
    MEASURED,
    ROUNDING,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    Transition,
)

_RECURRENT_LAYERS = ("RNN", "LSTM", "GRU")
_RECURRENT_CELLS = ("RNNCell", "LSTMCell", "GRUCell")
_RECURRENT = (
    "Along time steps the factor is that of all of them together, and by itself not a fault: the weights "
    "that they share get their gradient from the last ones."
)
_RANGE_THRESHOLDS = {
    "gradient_range_warning": Threshold(
        300.0, "factor between the two ends of the network, worth a look", MEASURED
    ),
    "gradient_factor": Threshold(
        1.2,
        "mean factor per block, above which that range is exponential in depth",
        "a plain layer with BatchNorm has √(π/(π − 1)) = 1.21, residual blocks tend to 1",
    ),
    "gradient_range": Threshold(
        1e3,
        "factor between the gradient norms at the two ends of the network",
        "residual networks of 164 layers have 10² to 1.5·10³, plain-56 3·10³, plain-164 10¹¹",
    ),
    "gradient_range_any": Threshold(
        3e4,
        "factor between the two ends of the network that is too large whatever a block's is",
        "one learning rate cannot suit both ends: a step that moves the last block by 10⁻³ of its "
        "weights replaces the first",
    ),
}


def flat_start(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Every block has a layer of zeros, and no layer of any block a gradient, though the loss has one."""
    fractions = evidence.column("parameter_gradients", "fraction")
    outputs = evidence.column("gradients", "norm_out")
    zeros = evidence.column("weights", "zero_layers")
    if fractions and all(s == 0 for s in fractions) and all(zeros) and any(outputs):
        yield FLAT_START.finding(
            Severity.PROBLEM,
            evidence.labels(range(len(evidence.blocks))),
            score=40.0,
            zero_layers=sum(z or 0 for z in zeros),
            gradient_at_last_block=outputs[-1],
        )


FLAT_START = Rule(
    code="flat-start",
    stage=CausalStage.FLATNESS,
    cause="initialization",
    title="An initialization with zero gradient in every block",
    explanation="The gradient of every block is zero here, so a first-order method does not leave this "
    "point; with more than two layers per branch the Hessian is zero as well.",
    source="shortcut_length, theorem 2",
    advice="Perturb the weights (scheme `small`), or zero only the last layer of each branch.",
    reads=("parameter_gradients.fraction", "gradients.norm_out", "weights.zero_layers"),
    find=flat_start,
    effects=("constant-classes",),
    downstream=(
        *("flat-to-second-order", "silent-branch", "zero-weights", "loss-does-not-fall"),
        *("dead-units", "collapsed-representation", "singular-representation"),
    ),
    upstream=("zero-gradient", "cut-gradient", "vanishing-gradient", "small-update"),
    remedies=("reinitialize-blocks",),
)


def flat_to_second_order(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """No layer of any block has a gradient, and no product with their Hessian is other than zero.

    Layers outside the blocks (a head) may have both.
    """
    curvature = evidence.about("curvature")
    fractions = evidence.column("parameter_gradients", "fraction")
    traces = evidence.column("curvature", "trace")
    spread = evidence.column("curvature", "trace_error")
    if not curvature.values or not fractions or not any(evidence.column("gradients", "norm_out")):
        return
    if (
        all(s == 0 for s in fractions)
        and all(t == 0 for t in traces)
        and all(e == 0 for e in spread)
    ):
        yield FLAT_TO_SECOND_ORDER.finding(
            Severity.PROBLEM,
            evidence.labels(range(len(evidence.blocks))),
            score=40.0,
            largest_eigenvalue=curvature.number("largest"),
            smallest_eigenvalue=curvature.number("smallest"),
            products=curvature.number("products"),
        )


FLAT_TO_SECOND_ORDER = Rule(
    code="flat-to-second-order",
    stage=CausalStage.FLATNESS,
    cause="initialization",
    title="An initialization that is flat to second order",
    explanation="Products with the Hessian of the blocks are zero as well as the gradient: noise leaves this "
    "point far more slowly than an ordinary saddle, the more slowly the more layers a branch has.",
    source="shortcut_length, theorem 2 (n ≥ 3) and definition 4",
    advice="Re-initialize the blocks; to start as the identity, zero only the last layer of each branch.",
    reads=(
        "curvature",
        "curvature.trace",
        "curvature.trace_error",
        "parameter_gradients.fraction",
        "gradients.norm_out",
    ),
    find=flat_to_second_order,
    downstream=("silent-branch", "loss-does-not-fall"),
    upstream=("zero-gradient", "vanishing-gradient", "small-update"),
    remedies=("reinitialize-blocks",),
)


def starts_at_zero(evidence: Evidence, index: int) -> bool:
    """Whether the weights of a block are all zero and have a gradient, so that its first step moves them."""
    norms, gradients = (
        evidence.column(name, "norm") for name in ("weights", "parameter_gradients")
    )
    return norms[index] == 0 and bool(gradients[index])


def cut_gradient(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The block at whose output no gradient arrives though the blocks after it have one.

    A gradient of zero at the end of the body is not a cut: a last layer that starts at zero gives it,
    and lets the gradient through from the second step on.
    """
    at_input = evidence.column("gradients", "norm_in")
    at_output = evidence.column("gradients", "norm_out")
    parameters = evidence.about("parameters")
    if parameters.number("zero_gradient") == (parameters.number("reached") or -1):
        return  # nothing at all has a gradient: no place in the body is to blame
    if parameters.holds("zero_head") and at_output and at_output[-1] == 0:
        return
    trained = any(n is not None for n in evidence.column("parameter_gradients", "norm"))
    # the first block with a gradient at its output; past the last one if none has
    first = next((i for i, norm in enumerate(at_output) if norm), len(evidence.blocks))
    # what this pass left out, as stochastic depth does, has no gradient and cuts none
    ran = [n is not None for n in evidence.column("activations", "non_finite")]
    if any(ran) and not any(ran[:first]):
        return
    if first == len(evidence.blocks) - 1 and starts_at_zero(evidence, first):
        return
    here = [i for i in (first - 1, first) if 0 <= i < len(evidence.blocks)]
    # a block after the cut may have a gradient at its input where a parameter restarts the graph
    before = evidence.column("parameter_gradients", "norm")[:first]
    restarted = any(n is not None for n in before) and all(n is None for n in at_output[:first])
    # another output than the first, such as a recurrent layer's last state, may carry the gradient
    aside = any(own is not None and at_input[i] for i, own in enumerate(before))
    cut = (first == len(evidence.blocks) or not at_input[first] or restarted) and not aside
    if trained and first and cut:
        result = CUT_GRADIENT.finding(
            Severity.WARNING if at_output[-1] == 0 else Severity.PROBLEM,
            evidence.labels(here),
            score=40.0,
            gradient_after=at_output[first] if first < len(at_output) else None,
            blocks_without_gradient=first,
        )
        yield at_its_line(_between(result, evidence.blocks, first), evidence)


def _between(cut: Finding, blocks: Sequence[Block], first: int) -> Finding:
    """A cut, with the two places between which it lies: `first` is the first block with a gradient."""
    last = blocks[first - 1].label
    why = f"No gradient reaches {last}: it stays as it was initialized."
    if first > 1:
        why = (
            f"No gradient reaches {last} or a block before it: they stay as they were initialized."
        )
    after = "the loss"
    if first < len(blocks):
        kind = blocks[first].kind
        after = f"{blocks[first].label}: in the forward() that calls both, or where {kind}.forward begins"
    return replace(
        cut,
        evidence={name: value for name, value in cut.evidence.items() if value is not None},
        why=why,
        remedy="Look for detach(), no_grad, .data, an argmax, or an integer cast between the output of "
        f"{last} and {after}.",
    )


CUT_GRADIENT = Rule(
    code="cut-gradient",
    stage=CausalStage.GRADIENTS,
    cause="data-flow",
    title="The gradient stops",
    explanation="No gradient reaches the first of the named blocks or one before it: they stay as they "
    "were initialized.",
    source="the chain rule",
    advice="Look for detach(), no_grad, .data, an argmax, or an integer cast between the output of the "
    "first named block and what reads it.",
    reads=(
        "weights.norm",
        "gradients.norm_in",
        "gradients.norm_out",
        "parameter_gradients.norm",
        "activations.non_finite",
        "parameters",
        "dependence",
    ),
    find=cut_gradient,
    effects=("detached-parameters",),
    downstream=("loss-does-not-fall", "unreached-parameters"),
    upstream=("vanishing-gradient", "small-update"),
    reads_gradients=True,
    event=Transition(
        title="the gradient of a block stopped",
        advice="Look for units that died, or a graph that was cut.",
    ),
)


def not_norm_preserving(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks that change the norm of the gradient by a large factor, in the order of the forward pass.

    What one block does to the scale of the signal, the normalization in the next undoes, and both
    show in the gradient: the first is the cause. A recurrent block is but noted, and so is a first
    block that does it mildly.
    """
    ratios = evidence.column("gradients", "ratio")
    factors = [max(r, 1 / r) if r is not None and 0 < r < math.inf else 1.0 for r in ratios]
    severe, mild = thresholds["norm_ratio"], thresholds["norm_ratio_warning"]
    # before the first block there is but a stem or embedding whose scale it sets
    mildly = [i for i, f in enumerate(factors) if mild < f <= severe]
    groups: dict[Severity, list[int]] = {
        Severity.PROBLEM: [i for i, f in enumerate(factors) if f > severe],
        Severity.WARNING: [i for i in mildly if i],
        Severity.NOTE: [i for i in mildly if not i],
    }
    timed = _over_steps(evidence)
    reported = [(s, [i for i in of if i not in timed], False) for s, of in groups.items()]
    reported.append(
        (Severity.NOTE, sorted(i for of in groups.values() for i in of if i in timed), True)
    )
    for severity, out, recurrent in reported:
        if out:
            result = NOT_NORM_PRESERVING.finding(
                severity,
                evidence.labels(out),
                score=decades(max(factors[i] for i in out)),
                growth=1 / (ratios[out[0]] or 1.0),  # above 1: it grows during backpropagation
                transition=evidence.blocks[out[0]].changes_dimension,
                num_blocks=len(out),
            )
            yield replace(result, why=_RECURRENT) if recurrent else result


NOT_NORM_PRESERVING = Rule(
    code="not-norm-preserving",
    stage=CausalStage.GRADIENTS,
    cause="initialization",
    title="A block that changes the gradient's norm by a large factor",
    explanation="Norms multiply along the network, so one such block sets the scale of the gradient for "
    "everything before it; no learning rate suits both sides.",
    source="norm_preservation, theorem 1 and section 3",
    advice="Rescale the block; on a transition, the Procrustes projection holds its singular values.",
    reads=("gradients.ratio",),
    thresholds={
        "norm_ratio": Threshold(
            100.0,
            "factor by which one block changes the gradient's norm",
            "norm_preservation, section 4.1: residual blocks stay within about 2",
        ),
        "norm_ratio_warning": Threshold(10.0, "the same, worth a look", MEASURED),
    },
    find=not_norm_preserving,
    downstream=(
        *("precision-loss", "dead-units", "batchnorm-masks", "silent-branch"),
        *("attention-logit-growth", "entropy-collapse", "token-collapse"),
        *("stream-outgrows-branches", "output-logit-drift", "collapsed-representation"),
        *("singular-representation", "positions-unused", "saturated-output", "poor-start"),
    ),
    upstream=(
        *("exploding-gradient", "vanishing-gradient", "large-update", "small-update"),
        *("unstable-rate", "swallowed-by-epsilon"),
    ),
    reads_gradients=True,
    remedies=("project-transitions",),
)


def exploding_gradient(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A gradient that is far larger at the first block than at the last."""
    factors = _factors(evidence)
    if math.prod(factors.values()) > 1:
        yield from _over_depth(EXPLODING_GRADIENT, evidence, factors, thresholds)


EXPLODING_GRADIENT = Rule(
    code="exploding-gradient",
    stage=CausalStage.GRADIENTS,
    cause="architecture",
    title="The gradient explodes during backpropagation",
    explanation="The first blocks receive a gradient that is orders of magnitude larger than the last: the "
    "first step replaces their weights, and singular representations follow.",
    source="norm_preservation, section 4.1; singularity, section VI",
    advice="Skip connections around equal-shaped blocks; branches scaled by depth; a lower learning rate.",
    reads=("gradients.norm_in", "gradients.norm_out", "activations.nonlinearity"),
    thresholds=_RANGE_THRESHOLDS,
    find=exploding_gradient,
    downstream=("poor-start",),
    upstream=("not-norm-preserving", "large-update", "unstable-rate", "overshooting-step"),
    reads_gradients=True,
)


def vanishing_gradient(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A gradient that is far smaller at the first block than at the last, or at the first time steps."""
    factors = _factors(evidence)
    if factors and math.prod(factors.values()) <= 1:
        yield from _over_depth(VANISHING_GRADIENT, evidence, factors, thresholds)
    yield from _over_time(evidence, thresholds)


VANISHING_GRADIENT = Rule(
    code="vanishing-gradient",
    stage=CausalStage.GRADIENTS,
    cause="architecture",
    title="The gradient vanishes during backpropagation",
    explanation="The first blocks receive a gradient that is orders of magnitude smaller than the last and "
    "hardly move.",
    source="norm_preservation, section 4.1",
    advice="Skip connections around equal-shaped blocks; rescale the blocks to unit gain.",
    reads=(
        "gradients.norm_in",
        "gradients.norm_out",
        "gradients.over_time",
        "activations.nonlinearity",
    ),
    thresholds={
        **_RANGE_THRESHOLDS,
        "over_time": Threshold(
            1e-07, "gradient at the first time steps of a sequence over that at the last", ROUNDING
        ),
    },
    find=vanishing_gradient,
    downstream=(
        *("collapsed-representation", "singular-representation", "small-update"),
        *("constant-output", "loss-does-not-fall"),
    ),
    # an ε above the gradients of the first blocks alone: had it been the cause, the last ones had it too
    upstream=("not-norm-preserving", "cut-gradient", "small-update", "swallowed-by-epsilon"),
    reads_gradients=True,
)


def _over_depth(
    rule: Rule, evidence: Evidence, factors: Mapping[int, float], thresholds: Thresholds
) -> Iterator[Finding]:
    """The factor between the gradients at the two ends of the network, and the blocks that make it.

    Those that contribute more than the mean block are named, in the order of the backward pass, so
    that where the trouble begins comes first; of a growth that is exponential in depth, all blocks of
    its range are, by depth; and one block that makes most of it stands alone. Recurrent blocks do
    not count towards its severity.
    """
    growth = math.prod(factors.values())
    if decades(growth) < decades(thresholds["gradient_range_warning"]):
        return
    smooth = _smooth_range(factors)
    mean = growth ** (1 / len(evidence.blocks))  # what each block would do if all did alike
    if smooth:
        mean = math.prod(factors[i] for i in smooth) ** (1 / len(smooth))
    # less by rounding: of blocks that all do alike none would be named
    due = mean ** (1 - 1e-9)
    above = [i for i, f in factors.items() if (f >= due if growth > 1 else f <= due)]
    named = smooth or [i for i in above if decades(factors[i]) > decades(growth) / 2] or above
    ends = evidence.labels([named[0], named[-1]]) if smooth else (None, None)
    inputs, outputs = (evidence.column("gradients", name) for name in ("norm_in", "norm_out"))
    result = rule.finding(
        _severity_of_range(evidence, factors, thresholds),
        evidence.labels(smooth or named[::-1]),
        score=decades(growth),
        cause=cause_of_squashing(evidence, named) if growth < 1 else None,
        gradient_at_first_block=inputs[min(factors)],
        gradient_at_last_block=outputs[max(factors)],
        # as gradients.ratio has it: below 1 where the gradient grows during backpropagation
        cumulative_gradient_ratio=1 / growth if growth else math.inf,
        ratio_per_block=1 / mean if mean else math.inf,
        first_block=ends[0],
        last_block=ends[1],
    )
    yield replace(result, why=_RECURRENT) if result.severity is Severity.NOTE else result


# A growth is smooth where the shortest run of blocks that makes nine tenths of it, in powers of ten,
# has at least four blocks, and none of them makes more than a quarter.
_MOST_OF_IT, _FEWEST_BLOCKS, _LARGEST_PART = 0.9, 4, 0.25


def _smooth_range(factors: Mapping[int, float]) -> list[int]:
    """The shortest run of blocks that makes most of a growth, where all have a part in it; else none."""
    blocks = list(factors)
    parts = [math.log10(factors[i]) for i in blocks]
    total = sum(parts)
    sums = list(accumulate(parts, initial=0.0))
    runs = [
        (end - start, start)
        for start in range(len(blocks))
        for end in range(start + 1, len(blocks) + 1)
        if (sums[end] - sums[start]) / total >= _MOST_OF_IT
    ]
    length, start = min(runs)
    end = start + length
    due = (
        0.5 * total / len(blocks)
    )  # a neighbor that does half as much as the mean block belongs to it
    while start > 0 and parts[start - 1] / due >= 1:
        start -= 1
    while end < len(blocks) and parts[end] / due >= 1:
        end += 1
    is_smooth = length >= _FEWEST_BLOCKS and max(p / total for p in parts) <= _LARGEST_PART
    return blocks[start:end] if is_smooth else []


def _over_time(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Recurrent layers at whose first time steps no gradient is left."""
    ratios = evidence.column("gradients", "over_time")
    out = [i for i, r in enumerate(ratios) if r is not None and r < thresholds["over_time"]]
    if out:
        yield VANISHING_GRADIENT.finding(
            Severity.WARNING,
            evidence.labels(out),
            score=decades(max(ratios[out[0]] or 0.0, 1e-40)),
            first_steps_over_last=ratios[out[0]],
            why="Along the sequence the gradient fades below rounding: what comes early in it is not "
            "learned from.",
            source="Bengio, Simard, Frasconi 1994",
            remedy="Shorten or split the sequences, use a gated cell with its forget bias at 1, or "
            "attention over the time steps.",
        )


def _over_steps(evidence: Evidence) -> set[int]:
    """Recurrent layers, and in a loop over the cells of one all that is called again and again."""
    blocks = evidence.blocks
    unrolled = any(block.kind in _RECURRENT_CELLS and block.call for block in blocks)
    repeated = {block.name for block in blocks if block.call}
    return {
        i
        for i, block in enumerate(blocks)
        if block.kind in _RECURRENT_LAYERS or (unrolled and block.name in repeated)
    }


def _severity_of_range(
    evidence: Evidence, factors: Mapping[int, float], thresholds: Thresholds
) -> Severity:
    """A problem where the range is extreme, or exponential in depth; a note where time makes it.

    Residual networks grow too, but not exponentially: their blocks tend to norm preservation.
    """
    timed = _over_steps(evidence)
    growth = math.prod(f for i, f in factors.items() if i not in timed)
    if decades(growth) < decades(thresholds["gradient_range_warning"]):
        return Severity.NOTE
    fraction = growth ** (1 / len(evidence.blocks))
    exponential = decades(fraction) >= decades(thresholds["gradient_factor"])
    limit = thresholds["gradient_range" if exponential else "gradient_range_any"]
    return Severity.PROBLEM if decades(growth) >= decades(limit) else Severity.WARNING


def _factors(evidence: Evidence) -> dict[int, float]:
    """By how much the gradient grows from each block's successor's input to its own.

    So what lies between two blocks counts as part of the first, and the product over the blocks is
    the factor of the whole body. Blocks that no gradient, or none but zero, reached are left out.
    """
    inputs, outputs = (evidence.column("gradients", name) for name in ("norm_in", "norm_out"))
    reached = [i for i, norm in enumerate(inputs) if norm and math.isfinite(norm)]
    end = outputs[reached[-1]] if reached else None
    if not end or not math.isfinite(end):
        return {}
    norms = [*(inputs[i] or 0.0 for i in reached), end]
    return {i: here / after for i, (here, after) in zip(reached, pairwise(norms), strict=True)}
