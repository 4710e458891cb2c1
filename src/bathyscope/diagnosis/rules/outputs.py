"""The activation at the end of the network against the loss that reads it."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, finding
from bathyscope.diagnosis.thresholds import Thresholds


def one_unit_softmax(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A softmax whose axis has one entry."""
    told = evidence.about("output")
    if told.word("activation") == "softmax" and told.number("num_outputs") == 1:
        yield finding("one-unit-softmax", Severity.PROBLEM, evidence.last_block, score=40.0)


def output_misfit(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A squashing activation under a loss that has its own: the least loss in reach is far from zero."""
    told = evidence.about("output")
    activation = told.word("activation")
    bounded = activation in ("softmax", "sigmoid", "tanh")
    lost = _share_out_of_reach(evidence)
    if told.word("activation_in_loss") is not None:
        activation = told.word("activation_in_loss")
        yield finding("output-misfit", Severity.PROBLEM, (), score=1.0, activation=activation)
    elif (
        bounded
        and told.word("loss_takes") in ("logits", "log-probabilities")
        and lost is not None
        and lost > thresholds["out_of_reach"]
    ):
        yield finding(
            "output-misfit",
            Severity.PROBLEM,
            evidence.last_block,
            score=lost,
            activation=activation,
            least_reachable_loss=told.number("least_reachable_loss"),
            best_constant=told.number("best_constant"),
            share_out_of_reach=lost,
        )


def sigmoid_for_one_class(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Sigmoids under a loss on the probability of one class."""
    told = evidence.about("output")
    if (
        told.word("activation") == "sigmoid"
        and told.word("loss_asks") == "one class"
        and (told.number("num_outputs") or 0) > 1
    ):
        yield finding(
            "sigmoid-for-one-class", Severity.PROBLEM, evidence.last_block, score=1.0,
            outputs=told.number("num_outputs"),
        )  # fmt: skip


def softmax_for_several_labels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A softmax over targets of 0 and 1 whose rows do not sum to one."""
    told = evidence.about("output")
    off = told.number("target_rows_sum")
    if (
        told.word("activation") == "softmax"
        and off is not None
        and off > 0.5
        and told.holds("binary_targets")
    ):
        yield finding(
            "softmax-for-several-labels", Severity.PROBLEM, evidence.last_block, score=off,
            labels_a_row_from_one=off,
        )  # fmt: skip


def clipped_output(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A ReLU under a loss on logits or probabilities."""
    told = evidence.about("output")
    if told.word("activation") == "relu" and told.word("loss_takes") in (
        "logits",
        "probabilities",
        "log-probabilities",
    ):
        yield finding(
            "clipped-output", Severity.PROBLEM, evidence.last_block,
            score=told.number("clipped_samples") or 0.0,
            loss_takes=told.word("loss_takes"), clipped_samples=told.number("clipped_samples"),
        )  # fmt: skip


def unreachable_targets(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Targets of a distance that lie outside the range of the last activation."""
    told = evidence.about("output")
    lost = _share_out_of_reach(evidence)
    if told.word("loss_asks") != "distance" or lost is None or told.word("activation") == "none":
        return
    several = told.word("activation") == "softmax" and told.holds("binary_targets")
    if lost > thresholds["out_of_reach"] and not several:
        yield finding(
            "unreachable-targets",
            Severity.PROBLEM,
            evidence.last_block,
            score=lost,
            activation=told.word("activation"),
            smallest_target=told.number("smallest_target"),
            largest_target=told.number("largest_target"),
            share_out_of_reach=lost,
        )


def saturated_output(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Most samples have no gradient before the last activation, though their loss is not met."""
    told = evidence.about("output")
    share, loss = told.number("clipped_samples"), told.number("loss")
    constant, least = told.number("best_constant"), told.number("least_loss")
    if share is None or share < thresholds["saturated_share"] or loss is None:
        return
    if constant is not None and least is not None and loss - least < 0.1 * (constant - least):
        return  # they are right already
    yield finding(
        "saturated-output", Severity.PROBLEM, evidence.last_block, score=share,
        samples_without_gradient=share, activation=told.word("activation"),
    )  # fmt: skip


def constant_output(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Samples that differ get one answer; a last layer that starts at zero is meant so."""
    told = evidence.about("output")
    spread, largest = told.number("output_spread"), told.number("largest_output")
    if spread is None or largest == 0 or evidence.samples_equal:
        return
    if spread < 8 * evidence.epsilon and not _head_starts_at_zero(evidence):
        yield finding(
            "constant-output", Severity.PROBLEM, evidence.last_block, score=1.0,
            spread_over_samples=spread, largest_output=largest,
        )  # fmt: skip


def _head_starts_at_zero(evidence: Evidence) -> bool:
    return bool(evidence.about("parameters").holds("zero_head"))


def _share_out_of_reach(evidence: Evidence) -> float | None:
    """How much of the way from the best constant answer to the perfect one is closed off."""
    told = evidence.about("output")
    reach, least = told.number("least_reachable_loss"), told.number("least_loss")
    constant = told.number("best_constant")
    if reach is None or least is None or constant is None or constant - least <= 1e-9:
        return None
    return (reach - least) / (constant - least)
