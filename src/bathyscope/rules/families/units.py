"""Units that never change, digits lost to an offset, branches that add nothing, norms below their ε."""

from collections.abc import Iterator
from dataclasses import replace

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import (
    MEASURED,
    ROUNDING,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    Transition,
    When,
)

_SMOOTH = ("gelu", "silu", "mish", "softplus", "tanh", "sigmoid", "elu", "selu", "celu")
_CUT = 0.1


def _is_cut(fraction: float, activation: str | None) -> bool:
    """Whether a tenth of the units of a smooth activation are constant: it has no flat part to blame."""
    return fraction >= _CUT and activation in _SMOOTH


def dead_units(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks, stem or head most of whose units give one value for the whole batch, the worst first."""
    evidence = evidence.everywhere
    fractions = evidence.column("activations", "dead_units")
    names = evidence.description("activations", "nonlinearity")
    limit = thresholds["dead_fraction"]
    for severity, low, high in (
        (Severity.PROBLEM, limit, 1.01),
        (Severity.WARNING, limit / 1.5, limit),
    ):
        out = [
            i
            for i, fraction in enumerate(fractions)
            if fraction is not None
            and (low <= fraction < high or (_is_cut(fraction, names[i]) and low < limit))
            and fraction < high
        ]
        if out:
            out.sort(key=lambda i: -(fractions[i] or 0.0))
            result = DEAD_UNITS.finding(
                severity,
                evidence.labels(out),
                score=fractions[out[0]] or 0.0,
                dead_fraction=fractions[out[0]],
                nonlinearity=names[out[0]],
                num_blocks=len(out),
            )
            saturates = names[out[0]] not in (None, "relu", "leaky_relu", "relu6")
            yield _with_reasons_of_saturation(result) if saturates else result


DEAD_UNITS = Rule(
    code="dead-units",
    stage=CausalStage.UNITS,
    cause="activation",
    title="Dead units: the same value for every sample",
    explanation="A unit that is constant over the batch passes no gradient to the weights before it, so it "
    "cannot recover by itself.",
    source="the derivative of a ReLU below zero is zero",
    advice="Re-initialize the block; look for a large negative bias or a learning rate that was too large.",
    reads=("activations.dead_units", "activations.nonlinearity"),
    thresholds={
        "dead_fraction": Threshold(
            0.9, "fraction of a block's units that give one value for the batch", MEASURED
        )
    },
    when=("activations.dead_units",),
    find=dead_units,
    downstream=(
        *("batchnorm-masks", "silent-branch", "uniform-attention", "token-collapse"),
        *("collapsed-representation", "singular-representation", "constant-output"),
    ),
    upstream=(
        *("cut-gradient", "not-norm-preserving", "vanishing-gradient", "small-update"),
        "zero-gradient",
    ),
    compares_samples=True,
    event=Transition(
        title="most units of a block died",
        advice="Lower the learning rate; re-initialize the block; use an activation with a slope below zero.",
        column="dead",
        above=0.9,
        before=0.5,  # a block that was mostly dead all along is not an event
    ),
    remedies=("reinitialize-blocks",),
)


def precision_loss(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The first block whose deviation is within rounding of its mean: ε |mean| / deviation."""
    means = evidence.column("activations", "mean")
    deviations = evidence.column("activations", "std")
    lost = [
        evidence.epsilon * abs(m) / s if m is not None and s else 0.0
        for m, s in zip(means, deviations, strict=True)
    ]
    out = [i for i, fraction in enumerate(lost) if fraction > thresholds["precision"]]
    if out:
        yield PRECISION_LOSS.finding(
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(lost[out[0]] / thresholds["precision"]),
            fraction_lost_to_rounding=lost[out[0]],
            mean=means[out[0]],
            deviation=deviations[out[0]],
            num_blocks=len(out),
        )


PRECISION_LOSS = Rule(
    code="precision-loss",
    stage=CausalStage.UNITS,
    cause="precision",
    title="A signal lost in the rounding of its own offset",
    explanation="The values differ by little more than the spacing of floating-point numbers of their "
    "size: what distinguishes samples is rounded away.",
    source="IEEE 754: numbers near c are spaced ε·c apart",
    advice="Remove the offset (a bias, a missing normalization), or use a longer format.",
    reads=("activations.mean", "activations.std"),
    thresholds={
        "precision": Threshold(
            0.05, "ε |mean| / standard deviation: fraction of the signal lost to rounding", ROUNDING
        )
    },
    find=precision_loss,
    downstream=(
        *("dead-units", "silent-branch", "batchnorm-masks", "stream-outgrows-branches"),
        "output-logit-drift",
        *("token-collapse", "collapsed-representation", "singular-representation"),
        *("not-norm-preserving", "saturated-output", "constant-output", "poor-start"),
    ),
    upstream=("not-norm-preserving", "vanishing-gradient", "small-update"),
)


def silent_branch(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Residual blocks whose branch is lost in the addition.

    A branch that starts at zero by its last layer, or the scale of its last norm, alone is meant so:
    it receives a gradient there and moves at the first step. One that neither gives nor receives is
    the problem.
    """
    changes = evidence.column("activations", "change")
    layers = evidence.column("parameter_gradients", "fraction")
    scales = evidence.column("parameter_gradients", "scale_fraction")
    reached = [max(a or 0.0, b or 0.0) for a, b in zip(layers, scales, strict=True)]
    silent = [
        i
        for i, change in enumerate(changes)
        if change is not None and change < thresholds["silent_change"]
    ]
    stuck = [i for i in silent if reached[i] < thresholds["silent_change"]]
    if stuck and len(stuck) < len(evidence.blocks):
        smallest = min(changes[i] or 0.0 for i in stuck)
        yield SILENT_BRANCH.finding(
            Severity.PROBLEM,
            evidence.labels(stuck),
            score=decades(max(smallest, 1e-40)),
            change=smallest,
            gradient_fraction=reached[stuck[0]],
            num_blocks=len(stuck),
        )


SILENT_BRANCH = Rule(
    code="silent-branch",
    stage=CausalStage.UNITS,
    cause="initialization",
    title="A residual branch that adds nothing and receives no gradient",
    explanation="The block is its shortcut, and its weights are too small for the gradient to reach the "
    "layers inside: at zero every derivative up to order n − 1 of a branch with n layers vanishes.",
    source="shortcut_length, theorem 2",
    advice="Re-initialize the branch; to start as the identity, zero its last layer only.",
    reads=(
        "activations.change",
        "parameter_gradients.fraction",
        "parameter_gradients.scale_fraction",
    ),
    thresholds={
        "silent_change": Threshold(1e-06, "‖x_{l+1} − x_l‖ / ‖x_l‖ of a residual block", ROUNDING)
    },
    when=(When("activations.change", below="silent_change"),),
    find=silent_branch,
    downstream=("batchnorm-masks", "uniform-attention", "dead-heads"),
    upstream=("vanishing-gradient", "small-update"),
    remedies=("reinitialize-blocks",),
)


def batchnorm_masks(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Batch norms whose input varies by less than their ε, the worst first."""
    variances = evidence.column("normalization", "variance_over_epsilon")
    layers = evidence.description("normalization", "layer")
    out = [i for i, v in enumerate(variances) if v is not None and v < thresholds["norm_variance"]]
    if out:
        out.sort(key=lambda i: variances[i] or 0.0)
        worst = variances[out[0]] or 0.0
        yield BATCHNORM_MASKS.finding(
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(worst, 1e-40)),
            variance_over_epsilon=worst,
            layer=layers[out[0]],
            num_blocks=len(out),
        )


BATCHNORM_MASKS = Rule(
    code="batchnorm-masks",
    stage=CausalStage.UNITS,
    cause="initialization",
    title="A batch norm whose input varies less than its ε",
    explanation="The variance that reaches the norm is below its ε, so it no longer normalizes; with "
    "another batch, or in eval mode, the network is a different one.",
    source="batch norm divides by √(variance + ε)",
    advice="Re-initialize or rescale the layer before the norm.",
    reads=("normalization.variance_over_epsilon", "normalization.layer"),
    thresholds={
        "norm_variance": Threshold(
            0.1,
            "variance before a batch norm, in units of its ε",
            "the norm divides by √(variance + ε)",
        )
    },
    when=(When("normalization.variance_over_epsilon", below="norm_variance"),),
    find=batchnorm_masks,
    downstream=("not-norm-preserving", "collapsed-representation", "singular-representation"),
    upstream=(
        *("not-norm-preserving", "exploding-gradient", "vanishing-gradient", "large-update"),
        "small-update",
    ),
    compares_samples=True,
    remedies=("reinitialize-blocks",),
)


def _with_reasons_of_saturation(facts: Finding) -> Finding:
    """The finding with reasons for activations that are flat at both ends."""
    return replace(
        facts,
        why="A unit that never changes distinguishes no samples; at the flat end of its activation it "
        "passes next to no gradient either.",
        source="the slope of a sigmoid is at most 1/4 and vanishes at both ends",
        remedy="Use an activation that keeps the signal's variety (ReLU with its He start), put a "
        "normalization or a shortcut in, or start with larger weights.",
    )
