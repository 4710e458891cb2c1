"""The form and the sign of the loss."""

import math
from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import CausalStage, Rule, Thresholds, When


def class_distance(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A squared or absolute error on targets that are classes."""
    facts = evidence.about("output")
    if facts.word("loss_asks") != "distance" or not facts.holds("binary_targets"):
        return
    if (facts.number("num_labels") or 0) != 2:
        return
    squashed = facts.word("activation") in ("sigmoid", "softmax", "tanh")
    yield CLASS_DISTANCE.finding(
        Severity.WARNING if squashed and facts.holds("constant_slope") else Severity.NOTE,
        evidence.last_block,
        score=1.0,
        activation=facts.word("activation"),
    )


CLASS_DISTANCE = Rule(
    code="class-distance",
    stage=CausalStage.LOSS,
    cause="loss",
    title="A regression loss on class labels",
    explanation="Squared and absolute errors on 0 and 1 are not a likelihood: far from the target, behind a "
    "sigmoid or softmax, their gradient vanishes, and the absolute error asks for the majority class only.",
    source="Golik, Doetsch, Ney 2013, cross-entropy vs. squared error training",
    advice="Use nn.CrossEntropyLoss on class indices, or nn.BCEWithLogitsLoss, without an activation "
    "at the end.",
    when=(When("output.loss_asks", among=("distance",)),),
    find=class_distance,
    effects=("saturated-output", "vanishing-gradient", "loss-does-not-fall"),
)


def broadcast_loss(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Output and targets of unlike shapes that are stretched over one another."""
    yield BROADCAST_LOSS.finding(Severity.PROBLEM, score=1.0)


BROADCAST_LOSS = Rule(
    code="broadcast-loss",
    stage=CausalStage.LOSS,
    cause="loss",
    title="Output and targets are broadcast against each other",
    explanation="Their shapes differ, and every output is compared with every target: the optimum is the "
    "mean of the targets for every sample.",
    source="torch's broadcasting",
    advice="Give both the same shape: output.squeeze(1), or targets.unsqueeze(1).",
    when=("output.broadcast",),
    find=broadcast_loss,
    effects=("loss-does-not-fall",),
)


def negated_loss(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The opposite of the targets costs less than the targets, or the optimizer climbs a right loss."""
    facts = evidence.about("output")
    climbs = evidence.about("updates").holds("maximize")
    if facts.values.get("negated") is (not climbs) and not facts.holds("ignores_targets"):
        yield NEGATED_LOSS.finding(Severity.PROBLEM, score=1.0,
            loss=evidence.about("output").number("loss"), maximize=climbs,
        )  # fmt: skip


NEGATED_LOSS = Rule(
    code="negated-loss",
    stage=CausalStage.LOSS,
    cause="loss",
    title="A loss with the wrong sign",
    explanation="It is smaller for the opposite of the targets than for the targets, so that descent leads "
    "away from them; or it is right, and the optimizer maximizes it.",
    source="its values on predictions made from the targets",
    advice="Negate the loss, or leave out maximize=True.",
    when=("output.negated", "updates.maximize"),
    find=negated_loss,
    effects=("poor-start", "loss-does-not-fall"),
)


def summed_loss(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A loss that grows with the batch."""
    facts = evidence.about("output")
    yield SUMMED_LOSS.finding(Severity.WARNING, score=1.0, loss=facts.number("loss"))


SUMMED_LOSS = Rule(
    code="summed-loss",
    stage=CausalStage.LOSS,
    cause="loss",
    title="A loss that is summed over the batch",
    explanation="Loss and gradient grow with the batch size, and so does the effective learning rate.",
    source="the loss of two halves adds up to that of the whole",
    advice="Use reduction='mean', or divide the learning rate by the batch size.",
    when=("output.summed",),
    find=summed_loss,
    effects=("overshooting-step", "large-update", "unstable-rate", "loss-does-not-fall"),
)


def loss_non_finite(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """NaN or infinity where every block's output is finite."""
    loss = evidence.about("output").number("loss")
    inside = any(evidence.column("activations", "non_finite"))
    if loss is not None and not math.isfinite(loss) and not inside:
        yield NON_FINITE_LOSS.finding(Severity.PROBLEM, score=50.0, loss=loss)


NON_FINITE_LOSS = Rule(
    code="non-finite-loss",
    stage=CausalStage.LOSS,
    cause="loss",
    title="A non-finite loss (NaN or Inf)",
    explanation="Its gradient is non-finite too, and the first step destroys the weights.",
    source="IEEE 754 arithmetic",
    advice="Look at what goes into the loss: the logarithm of zero, an empty mean, an overflow.",
    reads=("activations.non_finite", "output"),
    when=(When("output.loss", is_finite=False),),
    find=loss_non_finite,
    effects=("non-finite", "zero-gradient"),
)
