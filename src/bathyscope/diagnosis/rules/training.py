"""What is trained and in which mode: parameters, optimizer, dropout, norms, structure."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds

USUAL_DECAY = 0.01
"""The most that is usual, as the remedy for more says."""


def frozen_parameters(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """All parameters, or most of them, without a gradient of their own."""
    told = evidence.about("parameters")
    frozen, entries = told.number("frozen_entries") or 0, told.number("entries") or 1
    share = frozen / entries
    if share > thresholds["frozen_share"]:
        yield finding(
            "frozen-parameters",
            Severity.PROBLEM if share == 1 else Severity.WARNING,
            (),
            score=share,
            frozen_share=share,
            frozen=told.word("frozen_names"),
        )


def not_in_optimizer(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters with a gradient that no step will move."""
    told = evidence.about("parameters")
    missing = told.number("missing") or 0
    if missing:
        yield finding(
            "not-in-optimizer", Severity.PROBLEM, (), score=missing,
            num_parameters=missing, parameters=told.word("missing_names"),
        )  # fmt: skip


def twice_in_optimizer(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters listed more than once."""
    told = evidence.about("parameters")
    if told.number("twice"):
        yield finding(
            "twice-in-optimizer", Severity.WARNING, (), score=1.0,
            parameters=told.word("twice_names"),
        )  # fmt: skip


def unreached_parameters(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters that the loss does not depend on; more than half of them is worth a look."""
    told = evidence.about("parameters")
    number, total = told.number("unreached") or 0, told.number("parameters") or 1
    if number:
        yield finding(
            "unreached-parameters",
            Severity.WARNING if number > total / 2 else Severity.NOTE,
            (),
            score=number / total,
            num_parameters=number,
            parameters=told.word("unreached_names"),
        )


def zero_gradient(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Every parameter that the loss depends on has a gradient of zero throughout."""
    told = evidence.about("parameters")
    reached, zero = told.number("reached") or 0, told.number("zero_gradient")
    if reached and zero == reached:
        yield finding("zero-gradient", Severity.PROBLEM, (), score=40.0, num_parameters=reached)


def heavy_weight_decay(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The pull of weight decay against that of the loss, at the median weight.

    A decay of the usual size outweighs only a gradient that has vanished, which is then the fault.
    """
    told = evidence.about("parameters")
    ratio, decay = told.number("decay_over_gradient"), told.number("largest_decay") or 0.0
    if ratio is not None and ratio > thresholds["decay"] and decay > USUAL_DECAY:
        grave = ratio > thresholds["decay_grave"]
        yield finding(
            "heavy-weight-decay",
            Severity.PROBLEM if grave else Severity.WARNING,
            (),
            score=decades(ratio),
            decay_over_gradient=ratio,
            weight_decay=decay,
        )


def eval_mode(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A network with dropout or batch norms in eval mode, beside the optimizer meant to train it."""
    told = evidence.about("mode")
    modal, resting = told.number("modal") or 0, told.number("resting") or 0
    if modal and resting == modal:
        meant = "updates" not in evidence.measurements
        yield finding(
            "eval-mode",
            Severity.NOTE if meant else Severity.WARNING,
            (),
            score=resting,
            modules_in_eval_mode=resting,
        )


def heavy_dropout(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The greatest probability of a dropout that is on."""
    dropped = evidence.about("mode").number("dropped") or 0.0
    if dropped >= thresholds["dropout"]:
        grave = dropped >= thresholds["dropout_grave"]
        yield finding(
            "heavy-dropout",
            Severity.PROBLEM if grave else Severity.WARNING,
            (),
            score=dropped,
            probability=dropped,
        )


def norm_of_one_value(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Norms whose groups hold one value."""
    number = evidence.about("mode").number("lone_norms") or 0
    if number:
        yield finding("norm-of-one-value", Severity.PROBLEM, (), score=number, norms_called=number)


def linear_network(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """No activation anywhere; or linear maps in a row within a network that has some.

    A pair or two of many, such as a stem and the first block, is worth no more than a note.
    """
    told = evidence.about("output")
    pairs, share = told.number("adjacent_maps") or 0, told.number("adjacent_share") or 0.0
    if told.holds("linear"):
        yield finding(
            "linear-network",
            Severity.PROBLEM,
            evidence.labels(range(len(evidence.blocks))),
            score=1.0,
            everywhere=True,
        )
    elif pairs:
        yield finding(
            "linear-network",
            Severity.WARNING if share > thresholds["linear_share"] else Severity.NOTE,
            (),
            score=share,
            everywhere=False,
            pairs=pairs,
            share_of_maps=share,
        )
