"""Layers that cannot do their work whatever their weights are."""

import math
from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, problem_if


def linear_network(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """No activation anywhere; or linear maps in a row within a network that has some.

    A pair or two of many, such as a stem and the first block, is worth no more than a note.
    """
    facts = evidence.about("output")
    pairs, fraction = facts.number("adjacent_maps") or 0, facts.number("adjacent_fraction") or 0.0
    if facts.holds("linear"):
        yield LINEAR_NETWORK.finding(
            Severity.PROBLEM, evidence.labels(range(len(evidence.blocks))), score=1.0
        )
    elif pairs:
        yield LINEAR_NETWORK.finding(
            Severity.WARNING if fraction > thresholds["linear_fraction"] else Severity.NOTE,
            score=fraction,
            pairs=pairs,
            layers=facts.word("adjacent_names") or None,
            fraction_of_maps=fraction,
            why=_PAIR,
        )


_PAIR = (
    "A product of matrices is a matrix: two layers without an activation function between them can do "
    "no more than one."
)

LINEAR_NETWORK = Rule(
    code="linear-network",
    stage=CausalStage.STRUCTURE,
    cause="activation",
    title="Linear layers without an activation between them",
    explanation="A product of matrices is a matrix: without an activation function between its layers the "
    "network is a single linear map, however many layers it has.",
    source="(W₂W₁)x = W₂(W₁x)",
    advice="Put an activation, such as nn.ReLU(), after every layer but the last.",
    thresholds={
        "linear_fraction": Threshold(
            0.5,
            "fraction of the linear layers that follow another one directly, in a network with activations",
            "of 47 random networks with activations 14 have such pairs, a hundredth to a third of their maps",
        )
    },
    when=("output.linear", "output.adjacent_maps"),
    find=linear_network,
    repairs=("add-activations",),
)


def narrow_width(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks whose output, all of what the next one gets, is fewer numbers than it takes to name a class."""
    classes = _num_classes(evidence)
    if classes < 3:
        return
    bits = math.log2(classes)
    needed, severe = (bits * thresholds[name] for name in ("narrow_width", "narrow_width_severe"))
    widths = [math.prod(block.out_shape[1:]) for block in evidence.blocks]
    handed_on = [
        math.prod(after.in_shape[1:]) == width
        for width, after in zip(widths, evidence.blocks[1:], strict=False)
    ]
    out = [i for i, whole in enumerate(handed_on) if whole and 0 < widths[i] < needed]
    if out:
        out.sort(key=lambda i: widths[i])
        yield NARROW_WIDTH.finding(
            problem_if(widths[out[0]] < severe),
            evidence.labels(out),
            score=decades(needed / widths[out[0]]),
            width=widths[out[0]],
            classes=classes,
            bits_of_a_class=bits,
            num_blocks=len(out),
        )


NARROW_WIDTH = Rule(
    code="narrow-width",
    stage=CausalStage.STRUCTURE,
    cause="architecture",
    title="A layer too narrow for the classes",
    explanation="What separates the classes has to pass through fewer numbers than it takes to encode them.",
    source="log₂ of the number of classes",
    advice="Widen the layer.",
    reads=("output", "labels"),
    thresholds={
        "narrow_width": Threshold(
            1.0,
            "width of a layer over log₂ of the number of classes",
            "n units that are on or off separate 2ⁿ classes",
        ),
        "narrow_width_severe": Threshold(
            0.3,
            "the same, a problem",
            "a layer of 1 in an MLP of three leaves 50 classes at .11 to .19, one of 5 at .98",
        ),
    },
    find=narrow_width,
    effects=("singular-representation", "collapsed-representation", "loss-does-not-fall"),
)


def _num_classes(evidence: Evidence) -> int:
    """How many classes one label per sample shows apart; 0 where labels are none."""
    output, labels = evidence.about("output"), evidence.about("labels")
    if not output.holds("index_targets") or output.word("loss_asks") != "one class":
        return 0
    shape = evidence.blocks[0].in_shape if evidence.blocks else ()
    if labels.number("number") != (shape[0] if shape else None):
        return int(labels.number("different") or 0)  # labels of tokens or pixels
    return int(output.number("num_outputs") or 0)
