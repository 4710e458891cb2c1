"""Weights that stand out by their size or have lost their rank."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades, typical
from bathyscope.rules.families.gradients import flat_start
from bathyscope.rules.rule import MEASURED, CausalStage, Rule, Threshold, Thresholds, Transition


def exploding_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Spectral norms far above the typical one of the network, the largest first.

    Against an absolute scale too: a network whose every layer exploded has no typical layer left.
    """
    norms = evidence.column("weights", "spectral_norm")
    usual = typical(norms)
    if not usual:
        return
    limit = thresholds["weight_outlier"]
    reference = min(usual, limit)  # no healthy layer has a gain of a thousand
    out = [i for i, norm in enumerate(norms) if norm is not None and norm > limit * reference]
    if out:
        out.sort(key=lambda i: -(norms[i] or 0.0))
        largest = norms[out[0]] or 0.0
        yield EXPLODING_WEIGHTS.finding(
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(largest / reference),
            spectral_norm=largest,
            typical_spectral_norm=usual,
            num_blocks=len(out),
        )


EXPLODING_WEIGHTS = Rule(
    code="exploding-weights",
    stage=CausalStage.WEIGHTS,
    cause="initialization",
    title="Weights far larger than those of the other layers",
    explanation="What passes through the layer dwarfs everything else, and the gradient grows by the same "
    "factor during backpropagation; behind a normalization the layer stops learning instead.",
    source="singularity, section VI (figures 8 to 12); norm_preservation, corollary 1",
    advice="Re-initialize or rescale the block; look for a learning rate that was too large before.",
    reads=("weights.spectral_norm",),
    thresholds={
        "weight_outlier": Threshold(
            1000.0, "times the scale of the other layers, relative to their size", MEASURED
        )
    },
    find=exploding_weights,
    downstream=(
        *("precision-loss", "dead-units", "batchnorm-masks", "attention-logit-growth"),
        *("entropy-collapse", "token-collapse", "stream-outgrows-branches", "output-logit-drift"),
        *("collapsed-representation", "not-norm-preserving", "saturated-output", "poor-start"),
        *("non-finite", "small-update"),
    ),
    upstream=("not-norm-preserving", "large-update", "small-update", "unstable-rate"),
    event=Transition(
        title="weights exploded",
        advice="Lower the learning rate, clip gradients, or add weight decay; go back to a checkpoint "
        "before this step.",
    ),
    remedies=("reinitialize-blocks",),
)


def ill_conditioned_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Layers whose numerical rank is a small fraction of the full one, the smallest first.

    Layers that are zero throughout are left to the rules on branches.
    """
    fractions = evidence.column("weights", "rank_fraction")
    layers = evidence.description("weights", "lowest_rank_layer")
    out = [i for i, s in enumerate(fractions) if s is not None and s <= thresholds["weight_rank"]]
    if out:
        out.sort(key=lambda i: fractions[i] or 0.0)
        yield ILL_CONDITIONED_WEIGHTS.finding(
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(fractions[out[0]] or 0.0, 1e-6)),
            rank_fraction=fractions[out[0]],
            layer=layers[out[0]],
            num_blocks=len(out),
        )


ILL_CONDITIONED_WEIGHTS = Rule(
    code="ill-conditioned-weights",
    stage=CausalStage.WEIGHTS,
    cause="initialization",
    title="A weight matrix of low rank",
    explanation="Directions that a layer maps to zero are lost to every layer after it, and no gradient "
    "comes back along them.",
    source="singularity, section IV (equation 11, lemma 4)",
    advice="Re-initialize the block (he, orthogonal), or put an identity shortcut around it.",
    reads=("weights.rank_fraction", "weights.lowest_rank_layer"),
    thresholds={
        "weight_rank": Threshold(
            0.5, "fraction of a layer's full numerical rank", "singularity, equation 11"
        )
    },
    find=ill_conditioned_weights,
    downstream=(
        *("dead-units", "batchnorm-masks", "token-collapse", "collapsed-representation"),
        *("singular-representation", "not-norm-preserving"),
    ),
    upstream=("not-norm-preserving", "vanishing-gradient", "small-update"),
    remedies=("reinitialize-blocks",),
)


def zero_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with a layer of zeros that let nothing of the samples through.

    The last layer of a network may start so, and where no block has a gradient it is a flat start.
    """
    zeros = evidence.column("weights", "zero_layers")
    ranks = evidence.column("representations", "rank_samples")
    out = [i for i, z in enumerate(zeros[:-1]) if z and (ranks[i] or 0.0) <= 1]
    if out and not any(flat_start(evidence, thresholds)):
        yield ZERO_WEIGHTS.finding(
            Severity.PROBLEM,
            evidence.labels(out),
            score=40.0,
            zero_layers=zeros[out[0]],
            num_blocks=len(out),
        )


ZERO_WEIGHTS = Rule(
    code="zero-weights",
    stage=CausalStage.WEIGHTS,
    cause="initialization",
    title="A layer whose weights are all zero",
    explanation="Without a shortcut around it everything before it is lost: the layer outputs its bias, "
    "and no gradient passes back through it.",
    source="0·x = 0",
    advice="Re-initialize the layer; of a weight norm, set the scale g to a nonzero value.",
    reads=("weights.zero_layers", "representations.rank_samples"),
    when=("weights.zero_layers",),
    find=zero_weights,
    effects=(
        *("non-finite", "dead-units", "collapsed-representation", "singular-representation"),
        *("cut-gradient", "constant-output", "zero-gradient"),
    ),
    downstream=(
        *("ill-conditioned-weights", "batchnorm-masks", "silent-branch", "token-collapse"),
    ),
    upstream=("vanishing-gradient", "small-update"),
)
