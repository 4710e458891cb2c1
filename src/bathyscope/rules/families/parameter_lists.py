"""Parameters that nobody trains: unlisted, detached, shared by accident, frozen as they were drawn."""

from collections.abc import Iterator
from dataclasses import replace

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import (
    MEASURED,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    When,
    problem_if,
)


def unlisted_parameters(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Trainable tensors in the output's graph that `model.parameters()` does not give."""
    facts = evidence.about("dependence")
    number = facts.number("unlisted") or 0
    yield UNLISTED_PARAMETERS.finding(
        Severity.PROBLEM,
        score=number,
        num_parameters=int(number),
        shapes=facts.word("unlisted_names"),
        held_by=facts.word("unlisted_held_by"),
        made_in_forward=facts.holds("made_in_forward"),
    )


UNLISTED_PARAMETERS = Rule(
    code="unlisted-parameters",
    stage=CausalStage.STRUCTURE,
    cause="architecture",
    title="Parameters that the model does not list",
    explanation="The output is computed with trainable tensors that model.parameters() does not give: they "
    "are held in a plain list or dict, or made in forward(). No optimizer steps them, no checkpoint holds "
    "them.",
    source="nn.Module registers attributes that are modules or parameters",
    advice="Hold layers in nn.ModuleList or nn.ModuleDict, tensors in nn.ParameterList or as nn.Parameter; "
    "make them in __init__.",
    when=("dependence.unlisted",),
    find=unlisted_parameters,
    effects=("random-in-eval",),
)


def repeated_layer(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A container that holds one layer several times."""
    facts = evidence.about("dependence")
    yield REPEATED_LAYER.finding(
        Severity.PROBLEM, score=1.0, containers=facts.word("repeated_names")
    )


REPEATED_LAYER = Rule(
    code="repeated-layer",
    stage=CausalStage.STRUCTURE,
    cause="architecture",
    title="One layer that is held several times",
    explanation="A container holds the same layer, with the same weights, several times: [layer] * n makes "
    "no copies.",
    source="a list times n repeats the reference",
    advice="Make n layers: nn.ModuleList(make_layer() for _ in range(n)). If sharing is meant, silence this "
    "finding.",
    when=("dependence.repeated",),
    find=repeated_layer,
)


def detached_parameters(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters that change the output and get no gradient."""
    facts = evidence.about("dependence")
    number = facts.number("detached") or 0
    result = DETACHED_PARAMETERS.finding(
        Severity.PROBLEM,
        score=number,
        num_parameters=int(number),
        parameters=facts.word("detached_names"),
    )
    yield at_its_line(result, evidence)


def at_its_line(cut: Finding, evidence: Evidence) -> Finding:
    """A cut of the graph with the line of the model's code that makes it, where it is known."""
    lines = evidence.about("dependence").word("graph_cuts")
    if not lines:
        return cut
    return replace(
        cut,
        evidence={**cut.evidence, "cut_at": lines},
        remedy=f"The graph is cut at {lines}: without that a gradient reaches them. Remove it, or give the "
        "parameters before it a loss of their own.",
    )


DETACHED_PARAMETERS = Rule(
    code="detached-parameters",
    stage=CausalStage.OPTIMIZER,
    cause="data-flow",
    title="Parameters that work and never learn",
    explanation="The output changes with these trainable parameters, and no gradient reaches them: detach(), "
    "no_grad(), .data or a re-entrant checkpoint whose input needs no gradient lies between.",
    source="the chain rule; torch.utils.checkpoint, use_reentrant",
    advice="Use checkpoint(..., use_reentrant=False), or model.enable_input_require_grads(); look for "
    "detach() and torch.no_grad() in forward().",
    when=("dependence.detached",),
    find=detached_parameters,
    effects=("unreached-parameters",),
)


def frozen_fresh_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Frozen layers whose weights are distributed exactly as their initializer draws them."""
    facts = evidence.about("dependence")
    number = facts.number("frozen_fresh") or 0
    yield FROZEN_FRESH_WEIGHTS.finding(
        Severity.WARNING,
        score=number,
        num_layers=int(number),
        frozen_layers=facts.number("frozen_layers"),
        layers=facts.word("frozen_fresh_names"),
    )


FROZEN_FRESH_WEIGHTS = Rule(
    code="frozen-fresh-weights",
    stage=CausalStage.OPTIMIZER,
    cause="initialization",
    title="Frozen layers that were never trained",
    explanation="Their weights still have the exact distribution of torch's initializer: nothing was loaded "
    "into them, and nothing will train them.",
    source="U(−1/√fan_in, 1/√fan_in) for linear layers and convolutions, N(0, 1) for embeddings",
    advice="Load the checkpoint before freezing, and look at what load_state_dict(strict=False) returns; or "
    "train the layers.",
    when=("dependence.frozen_fresh",),
    find=frozen_fresh_weights,
)


def fresh_head(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A last layer as it was drawn behind layers that were trained; a vocabulary should be loaded too."""
    facts = evidence.about("dependence")
    if name := facts.word("fresh_head"):
        whole = facts.holds("fresh_head_is_vocabulary")
        yield FRESH_HEAD.finding(
            Severity.WARNING if whole else Severity.NOTE, [name], score=1.0, has_a_vocabulary=whole
        )


FRESH_HEAD = Rule(
    code="fresh-head",
    stage=CausalStage.OPTIMIZER,
    cause="initialization",
    title="A last layer as it was drawn, behind trained ones",
    explanation="The layers before it have been trained, and the last one has the exact distribution of its "
    "initializer. For new classes that is meant; the output layer of a language model was pretrained with "
    "the rest, and was not loaded, or drawn again afterwards.",
    source="kurtosis of the weights; U(−1/√fan_in, 1/√fan_in) or N(0, initializer_range) for the last layer",
    advice="Load the checkpoint last, after resizing and after any initialization, and look at the missing "
    "keys that loading reports.",
    when=("dependence.fresh_head",),
    find=fresh_head,
)


def untied_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Embedding and head that the configuration ties and that are two tensors."""
    names = evidence.about("dependence").word("untied_names")
    yield UNTIED_WEIGHTS.finding(Severity.WARNING, score=1.0, weights=names)


UNTIED_WEIGHTS = Rule(
    code="untied-weights",
    stage=CausalStage.STRUCTURE,
    cause="architecture",
    title="Weights that should be tied and are not",
    explanation="The configuration says tie_word_embeddings, and embedding and head are two tensors, which "
    "drift apart.",
    source="config.tie_word_embeddings",
    advice="Call model.tie_weights() after loading.",
    when=("dependence.untied_names",),
    find=untied_weights,
)


def still_statistics(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Batch norms with momentum 0, or with one that leaves little but the last batch."""
    facts = evidence.about("dependence")
    still, last = facts.number("still_norms") or 0, facts.number("last_batch_norms") or 0
    if still or last:
        yield STILL_STATISTICS.finding(
            problem_if(bool(facts.number("still_at_start")) or last > 0),
            score=still + last,
            norms_with_momentum_zero=facts.word("still_norms_names") or None,
            norms_that_hold_the_last_batch=facts.word("last_batch_norms_names") or None,
        )


STILL_STATISTICS = Rule(
    code="still-statistics",
    stage=CausalStage.MODE,
    cause="mode",
    title="Batch norms whose running statistics do not follow",
    explanation="torch's momentum is the weight of the new batch: with 0 the running statistics never leave "
    "(0, 1), with 0.9 and more they are those of the last batch. Training does not show it; eval mode does.",
    source="running = (1 − momentum) · running + momentum · batch",
    advice="Use momentum=0.1; 0.99 in TensorFlow or Keras is 0.01 here.",
    when=("dependence.still_norms", "dependence.last_batch_norms"),
    find=still_statistics,
)


def unnormalized_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Weights under a spectral norm, in eval mode, whose largest singular value is far from 1."""
    facts = evidence.about("dependence")
    size = facts.number("spectral_norm")
    training = evidence.about("mode").holds("training")
    if size is not None and size > thresholds["spectral_norm"] and not training:
        yield UNNORMALIZED_WEIGHTS.finding(
            Severity.PROBLEM,
            score=size,
            largest_singular_value=size,
            layer=facts.word("spectral_norm_layer"),
        )


UNNORMALIZED_WEIGHTS = Rule(
    code="unnormalized-weights",
    stage=CausalStage.MODE,
    cause="mode",
    title="Spectral norms that do not normalize",
    explanation="The power iteration that estimates the largest singular value runs in train mode only: in "
    "eval mode the weight is divided by what the first, random vectors gave.",
    source="spectral_norm divides by uᵀWv",
    advice="Call model.train() before training, and run some batches in train mode before eval mode.",
    reads=("dependence", "mode"),
    thresholds={
        "spectral_norm": Threshold(
            2.0, "largest singular value of a weight under spectral_norm", MEASURED
        )
    },
    when=(When("dependence.spectral_norm", above="spectral_norm"),),
    find=unnormalized_weights,
    effects=("exploding-gradient", "poor-start", "saturated-output", "overshooting-step"),
)
