"""The loss itself: its form, its sign, its size at the start and its fall."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bathyscope.core.records import Finding, Number, Severity
from bathyscope.diagnosis.evidence import Evidence, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds


def class_distance(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A squared or absolute error on targets that are classes."""
    told = evidence.about("output")
    if told.word("loss_asks") != "distance" or not told.holds("binary_targets"):
        return
    if (told.number("num_labels") or 0) != 2:
        return
    squashed = told.word("activation") in ("sigmoid", "softmax", "tanh")
    yield finding(
        "class-distance",
        Severity.WARNING if squashed and told.holds("constant_slope") else Severity.NOTE,
        evidence.last_block,
        score=1.0,
        activation=told.word("activation"),
    )


def broadcast_loss(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Output and targets of unlike shapes that are stretched over one another."""
    if evidence.about("output").holds("broadcast"):
        yield finding("broadcast-loss", Severity.PROBLEM, (), score=1.0)


def negated_loss(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The opposite of the targets costs less than the targets."""
    if evidence.about("output").holds("negated"):
        yield finding(
            "negated-loss", Severity.PROBLEM, (), score=1.0,
            loss=evidence.about("output").number("loss"),
        )  # fmt: skip


def summed_loss(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A loss that grows with the batch."""
    told = evidence.about("output")
    if told.holds("summed"):
        yield finding("summed-loss", Severity.WARNING, (), score=1.0, loss=told.number("loss"))


def loss_not_finite(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """NaN or infinity where every block's output is finite."""
    loss = evidence.about("output").number("loss")
    inside = any(evidence.column("activations", "not_finite"))
    if loss is not None and not math.isfinite(loss) and not inside:
        yield finding("loss-not-finite", Severity.PROBLEM, (), score=50.0, loss=loss)


def poor_start(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A loss at the start far above that of the best constant answer."""
    told = evidence.about("output")
    loss, constant = told.number("loss"), told.number("best_constant")
    least = told.number("least_loss") or 0.0
    if loss is None or constant is None or not math.isfinite(loss) or told.holds("summed"):
        return
    if evidence.about("labels").number("different") == 1 or told.holds("broadcast"):
        return
    room = max(constant - least, 1e-6)
    times = (loss - least) / room
    if times > thresholds["poor_start"]:
        grave = times > thresholds["poor_start_grave"]
        yield finding(
            "poor-start",
            Severity.PROBLEM if grave else Severity.WARNING,
            (),
            score=decades(times),
            loss=loss,
            best_constant=constant,
            times=times,
        )


def overshooting_step(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A step that raises the loss of its own batch, by what the best constant answer would cost."""
    step, told = evidence.about("step"), evidence.about("output")
    after, loss, constant = (
        step.number("loss_after"),
        told.number("loss"),
        told.number("best_constant"),
    )
    least = told.number("least_loss") or 0.0
    if after is None or loss is None or not math.isfinite(loss):
        return
    base = max(loss, constant if constant is not None else loss) - least
    times = math.inf if not math.isfinite(after) else (after - least) / max(base, 1e-9)
    if after > loss and times > thresholds["overshoot"]:
        grave = times > thresholds["overshoot_grave"]
        yield finding(
            "overshooting-step",
            Severity.PROBLEM if grave else Severity.WARNING,
            (),
            score=decades(times),
            loss=loss,
            loss_after_the_step=after,
            times=times,
            learning_rate=step.number("learning_rate"),
        )


def small_budget(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Steps that, each gaining what the first gains, do not halve the loss."""
    told, step = evidence.about("output"), evidence.about("step")
    loss, after = told.number("loss"), step.number("loss_after")
    if evidence.budget is None or loss is None or after is None or not math.isfinite(after):
        return
    gain = loss - after
    room = loss - (told.number("least_loss") or 0.0)
    if gain <= 0 or room <= 0:
        return
    reach = evidence.budget * gain / (1 - min(step.number("momentum") or 0.0, 0.99))
    share = reach / room
    if share < thresholds["budget"]:
        grave = share < thresholds["budget_grave"]
        yield finding(
            "small-budget",
            Severity.PROBLEM if grave else Severity.WARNING,
            (),
            score=decades(share),
            cause="learning-rate" if share < thresholds["budget_rate"] else "budget",
            steps=evidence.budget,
            gain_of_a_step=gain,
            share_of_the_loss_in_reach=share,
            steps_for_half=math.ceil(0.5 * evidence.budget / share),
        )


def loss_does_not_fall(
    losses: Sequence[tuple[int, Number]], least: Number, thresholds: Thresholds
) -> Iterator[Finding]:
    """A loss that after some steps on its own batch is where it was, or above.

    Args:
        losses: the loss after so many steps, the start first.
        least: the least loss there is, where it is known.
        thresholds: in force.
    """
    start, end = losses[0][1], losses[-1][1]
    if not isinstance(start, float) or not isinstance(end, float) or not math.isfinite(start):
        return
    floor = least if isinstance(least, (int, float)) else 0.0
    room = start - floor
    if room <= 1e-9 * abs(start):
        return
    share = (end - floor) / room if math.isfinite(end) else math.inf
    if share > thresholds["fall"]:
        grave = share > thresholds["rise"]
        told = finding(
            "loss-does-not-fall",
            Severity.PROBLEM if grave else Severity.WARNING,
            (),
            score=decades(share),
            loss=start,
            loss_at_the_end=end,
            steps=losses[-1][0],
        )
        yield replace(told, step=losses[-1][0])
