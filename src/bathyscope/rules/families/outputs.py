"""The activation at the end of the network against the loss that reads it."""

from collections.abc import Iterator

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import (
    MEASURED,
    OF_FLAT_OUTPUT,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    When,
)


def one_unit_softmax(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A softmax whose axis has one entry."""
    facts = evidence.about("output")
    if facts.word("activation") == "softmax" and facts.number("num_outputs") == 1:
        yield ONE_UNIT_SOFTMAX.finding(Severity.PROBLEM, evidence.last_block, score=40.0)


ONE_UNIT_SOFTMAX = Rule(
    code="one-unit-softmax",
    stage=CausalStage.OUTPUT,
    cause="output",
    title="A softmax over one unit",
    explanation="e^z / e^z is 1 whatever z is: the output is constant and passes no gradient.",
    source="softmax normalizes over its axis",
    advice="For two classes end with one unit and nn.BCEWithLogitsLoss (or a sigmoid with nn.BCELoss).",
    when=(When("output.activation", among=("softmax",)),),
    find=one_unit_softmax,
    effects=OF_FLAT_OUTPUT,
    repairs=("end-with-sigmoid",),
)


def output_misfit(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A squashing activation under a loss that has its own: the smallest loss in reach is far from zero."""
    facts = evidence.about("output")
    activation = facts.word("activation")
    bounded = activation in ("softmax", "sigmoid", "tanh")
    lost = _fraction_out_of_reach(evidence)
    if facts.word("activation_in_loss") is not None:
        activation = facts.word("activation_in_loss")
        yield OUTPUT_MISFIT.finding(Severity.PROBLEM, score=1.0, activation=activation)
    elif (
        bounded
        and facts.word("loss_takes") in ("logits", "log-probabilities")
        and lost is not None
        and lost > thresholds["out_of_reach"]
    ):
        yield OUTPUT_MISFIT.finding(
            Severity.PROBLEM,
            evidence.last_block,
            score=lost,
            activation=activation,
            smallest_reachable_loss=facts.number("smallest_reachable_loss"),
            best_constant=facts.number("best_constant"),
            fraction_out_of_reach=lost,
        )


def output_misfit_in_loop(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """The same where the loop itself computes what it gives to the loss."""
    for name, given in record.misread_losses:
        if name in ("cross_entropy", "binary_cross_entropy_with_logits"):
            yield OUTPUT_MISFIT.finding(Severity.PROBLEM, score=1.0, given=given, function=name)
            return


OUTPUT_MISFIT = Rule(
    code="output-misfit",
    stage=CausalStage.OUTPUT,
    cause="output",
    title="An activation at the end that the loss applies again",
    explanation="The loss takes logits and applies its own softmax or sigmoid; applied twice, the "
    "probabilities are almost equal, so that the loss cannot come near zero and its gradient is small.",
    source="softmax of values in [0, 1] is at most e/(e + C − 1)",
    advice="Remove the activation at the end of the network: the loss applies it.",
    thresholds={
        "out_of_reach": Threshold(
            0.1,
            "fraction of the way from the constant baseline to the optimum that cannot be reached",
            "softmax before cross-entropy has 0.45 for 2 classes, 0.63 for 10",
        )
    },
    when=(
        "output.activation_in_loss",
        When("output.activation", among=("softmax", "sigmoid", "tanh")),
    ),
    find=output_misfit,
    find_in_loop=output_misfit_in_loop,
    effects=OF_FLAT_OUTPUT,
    repairs=("drop-end-activation",),
)


def sigmoid_for_one_class(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Sigmoids under a loss on the probability of one class."""
    facts = evidence.about("output")
    if (
        facts.word("activation") == "sigmoid"
        and facts.word("loss_asks") == "one class"
        and (facts.number("num_outputs") or 0) > 1
    ):
        yield SIGMOID_FOR_ONE_CLASS.finding(Severity.PROBLEM, evidence.last_block, score=1.0,
            outputs=facts.number("num_outputs"),
        )  # fmt: skip


SIGMOID_FOR_ONE_CLASS = Rule(
    code="sigmoid-for-one-class",
    stage=CausalStage.OUTPUT,
    cause="output",
    title="Sigmoids under a multi-class loss",
    explanation="The classes do not compete: the loss only makes the right one large, and pushes the "
    "others down through their sum at most.",
    source="cross-entropy is a likelihood of probabilities that sum to one",
    advice="End with one output per class, no activation, and nn.CrossEntropyLoss.",
    when=(When("output.activation", among=("sigmoid",)),),
    find=sigmoid_for_one_class,
    effects=OF_FLAT_OUTPUT,
    repairs=("end-with-softmax",),
)


def softmax_for_several_labels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A softmax over targets of 0 and 1 whose rows do not sum to one."""
    facts = evidence.about("output")
    off = facts.number("target_rows_sum")
    if (
        facts.word("activation") == "softmax"
        and off is not None
        and off > 0.5
        and facts.holds("binary_targets")
    ):
        yield SOFTMAX_FOR_SEVERAL_LABELS.finding(Severity.PROBLEM, evidence.last_block, score=off,
            labels_a_row_from_one=off,
        )  # fmt: skip


SOFTMAX_FOR_SEVERAL_LABELS = Rule(
    code="softmax-for-several-labels",
    stage=CausalStage.OUTPUT,
    cause="output",
    title="A softmax for multi-label targets",
    explanation="Its outputs sum to one, so that two labels can never both be likely.",
    source="the targets of a row do not sum to one",
    advice="End with no activation and use nn.BCEWithLogitsLoss.",
    when=(When("output.activation", among=("softmax",)),),
    find=softmax_for_several_labels,
    effects=OF_FLAT_OUTPUT,
    repairs=("end-with-sigmoid",),
)


def clipped_output(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A ReLU under a loss on logits or probabilities."""
    facts = evidence.about("output")
    if facts.word("activation") == "relu" and facts.word("loss_takes") in (
        "logits",
        "probabilities",
        "log-probabilities",
    ):
        yield CLIPPED_OUTPUT.finding(Severity.PROBLEM, evidence.last_block,
            score=facts.number("clipped_samples") or 0.0,
            loss_takes=facts.word("loss_takes"), clipped_samples=facts.number("clipped_samples"),
        )  # fmt: skip


CLIPPED_OUTPUT = Rule(
    code="clipped-output",
    stage=CausalStage.OUTPUT,
    cause="output",
    title="A ReLU at the end of the network",
    explanation="Where it is zero no gradient passes, logits cannot be negative, and the logarithm of zero "
    "is infinite.",
    source="the derivative of a ReLU below zero is zero",
    advice="Remove the activation at the end of the network.",
    when=(When("output.activation", among=("relu",)),),
    find=clipped_output,
    effects=OF_FLAT_OUTPUT,
    repairs=("drop-end-activation",),
)


def unreachable_targets(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Targets of a distance that lie outside the range of the last activation."""
    facts = evidence.about("output")
    lost = _fraction_out_of_reach(evidence)
    if facts.word("loss_asks") != "distance" or lost is None or facts.word("activation") == "none":
        return
    several = facts.word("activation") == "softmax" and facts.holds("binary_targets")
    if lost > thresholds["out_of_reach"] and not several:
        yield UNREACHABLE_TARGETS.finding(
            Severity.PROBLEM,
            evidence.last_block,
            score=lost,
            activation=facts.word("activation"),
            smallest_target=facts.number("smallest_target"),
            largest_target=facts.number("largest_target"),
            fraction_out_of_reach=lost,
        )


UNREACHABLE_TARGETS = Rule(
    code="unreachable-targets",
    stage=CausalStage.OUTPUT,
    cause="output",
    title="Targets outside the range of the output",
    explanation="The activation at the end has a bounded range, and targets lie beyond it: the output "
    "saturates, where the gradient is zero.",
    source="the range of the activation",
    advice="Remove the activation at the end, or scale the targets into its range.",
    thresholds={
        "out_of_reach": Threshold(
            0.1,
            "fraction of the way from the constant baseline to the optimum that cannot be reached",
            "softmax before cross-entropy has 0.45 for 2 classes, 0.63 for 10",
        )
    },
    when=(When("output.loss_asks", among=("distance",)),),
    find=unreachable_targets,
    effects=OF_FLAT_OUTPUT,
    repairs=("drop-end-activation", "scale-outputs"),
)


def saturated_output(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Most samples have no gradient before the last activation, though their loss is not met."""
    facts = evidence.about("output")
    fraction, loss = facts.number("clipped_samples"), facts.number("loss")
    constant, minimum = facts.number("best_constant"), facts.number("smallest_loss")
    if fraction is None or fraction < thresholds["saturated_fraction"] or loss is None:
        return
    if constant is not None and minimum is not None and loss - minimum < 0.1 * (constant - minimum):
        return  # they are right already
    yield SATURATED_OUTPUT.finding(Severity.PROBLEM, evidence.last_block, score=fraction,
        samples_without_gradient=fraction, activation=facts.word("activation"),
    )  # fmt: skip


SATURATED_OUTPUT = Rule(
    code="saturated-output",
    stage=CausalStage.SATURATION,
    cause="output",
    title="A saturated output",
    explanation="For these samples the slope of the activation at the end is zero up to rounding: no "
    "gradient reaches the layers before it.",
    source="the derivative of the activation at the end",
    advice="Remove the activation at the end and use the loss on logits; scale the inputs and targets.",
    thresholds={
        "saturated_fraction": Threshold(
            0.5, "fraction of samples without a gradient before the last activation", MEASURED
        )
    },
    when=("output.clipped_samples",),
    find=saturated_output,
    effects=("zero-gradient", "cut-gradient", "loss-does-not-fall", "vanishing-gradient"),
    initial_only=True,
)


def _fraction_out_of_reach(evidence: Evidence) -> float | None:
    """How much of the way from the constant baseline to the perfect one is closed off."""
    facts = evidence.about("output")
    reach, minimum = facts.number("smallest_reachable_loss"), facts.number("smallest_loss")
    constant = facts.number("best_constant")
    if reach is None or minimum is None or constant is None or constant - minimum <= 1e-9:
        return None
    return (reach - minimum) / (constant - minimum)
