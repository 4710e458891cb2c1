"""Targets that cannot be learnt from: constant, ignored, out of range, too large, unrelated."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds


def ignored_labels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Every class index is the one that torch leaves out."""
    told = evidence.about("labels")
    if told.number("ignored") == 1:
        yield finding(
            "ignored-labels", Severity.PROBLEM, (), score=40.0, labels=told.number("number")
        )


def constant_labels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """One value for the whole batch; in a small batch that may be chance."""
    told = evidence.about("labels")
    samples = told.number("samples") or 0
    if told.number("different") == 1 and samples >= 4 and not evidence.samples_equal:
        grave = samples >= thresholds["constant_labels"]
        yield finding(
            "constant-labels",
            Severity.PROBLEM if grave else Severity.WARNING,
            (),
            score=samples,
            labels=samples,
        )


def labels_out_of_range(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Targets beyond 0 to 1 under a loss on probabilities."""
    told = evidence.about("output")
    low, high = told.number("smallest_target"), told.number("largest_target")
    if low is None or high is None or told.word("loss_asks") != "each class":
        return
    if low < 0 or high > 1:
        yield finding(
            "labels-out-of-range", Severity.PROBLEM, (), score=high - low,
            smallest_target=low, largest_target=high,
        )  # fmt: skip


def wrong_number_of_outputs(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """One output, and targets that are three or more classes by a loss on probabilities."""
    told = evidence.about("output")
    labels, high = told.number("num_labels") or 0, told.number("largest_target")
    low = told.number("smallest_target")
    one = told.number("num_outputs") == 1 and told.word("loss_asks") == "each class"
    if one and high is not None and low is not None and low >= 0 and high > 1 and labels > 2:
        yield finding(
            "wrong-number-of-outputs", Severity.PROBLEM, evidence.last_block, score=labels,
            outputs=1, classes=labels,
        )  # fmt: skip


def missing_classes(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Fewer than half of the outputs' classes among many labels."""
    told, output = evidence.about("labels"), evidence.about("output")
    number, classes = told.number("samples") or 0, output.number("num_outputs") or 0
    different = told.number("different") or 0
    if not output.holds("index_targets") or output.word("loss_asks") != "one class":
        return
    if number >= thresholds["labels_a_class"] * classes and 1 < different <= classes / 2:
        yield finding(
            "missing-classes", Severity.NOTE, (), score=classes - different,
            classes_seen=different, outputs=classes, labels=number,
        )  # fmt: skip


def unscaled_targets(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Numbers to be met by a distance, far larger than what a fresh network answers."""
    told = evidence.about("output")
    size = told.number("target_size")
    if size is None or told.word("loss_asks") != "distance":
        return
    reached = told.number("largest_output") or 0.0
    if size > thresholds["target_size"] and size > 3 * reached:
        grave = size > thresholds["target_size_grave"]
        yield finding(
            "unscaled-targets",
            Severity.PROBLEM if grave else Severity.WARNING,
            evidence.last_block,
            score=decades(size),
            target_size=size,
            target_deviation=told.number("target_deviation"),
            largest_output=reached,
        )


def unrelated_labels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Inputs and targets no more alike than shuffled ones, by the test's own deviation."""
    told = evidence.about("labels")
    score, samples = told.number("relation"), told.number("samples") or 0
    if score is not None and score < thresholds["relation"] and samples >= 32:
        yield finding(
            "unrelated-labels", Severity.NOTE, (), score=thresholds["relation"] - score,
            deviations_above_shuffled=score, samples=samples,
        )  # fmt: skip
