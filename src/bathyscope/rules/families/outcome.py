"""What shows in the output, the loss and the first steps: last of all, because all else may cause it."""

import math
from collections.abc import Iterator
from dataclasses import replace

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import (
    MEASURED,
    NINE_IN_TEN,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    When,
    problem_if,
)


def zero_gradient(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Every parameter that the loss depends on has a gradient of zero throughout."""
    facts = evidence.about("parameters")
    reached, zero = facts.number("reached") or 0, facts.number("zero_gradient")
    if reached and zero == reached:
        yield ZERO_GRADIENT.finding(Severity.PROBLEM, score=40.0, num_parameters=reached)


ZERO_GRADIENT = Rule(
    code="zero-gradient",
    stage=CausalStage.OUTCOME,
    cause="data-flow",
    title="Every gradient is zero",
    explanation="No parameter moves at the first step, and none after it.",
    source="the chain rule",
    advice="Look at the end of the network first: an output that does not depend on what is before it.",
    when=("parameters.zero_gradient",),
    find=zero_gradient,
    effects=("cut-gradient",),
    initial_only=True,
)


def constant_output(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Samples that differ get one answer; a last layer that starts at zero is meant so."""
    facts = evidence.about("output")
    spread, largest = facts.number("output_spread"), facts.number("largest_output")
    if spread is None or largest == 0 or evidence.samples_equal:
        return
    if spread < 8 * evidence.epsilon and not _head_starts_at_zero(evidence):
        yield CONSTANT_OUTPUT.finding(Severity.PROBLEM, evidence.last_block, score=1.0,
            spread_over_samples=spread, largest_output=largest,
        )  # fmt: skip


CONSTANT_OUTPUT = Rule(
    code="constant-output",
    stage=CausalStage.OUTCOME,
    cause="output",
    title="An output that does not depend on the input",
    explanation="All samples get the same prediction though they differ.",
    source="the standard deviation of the outputs over the batch",
    advice="Look at the first block where the representation collapses, or at the activation at the end.",
    reads=("parameters", "output"),
    find=constant_output,
    effects=("zero-gradient", "constant-classes", "loss-does-not-fall"),
)


def poor_start(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A loss at the start far above that of the constant baseline."""
    facts = evidence.about("output")
    loss, constant = facts.number("loss"), facts.number("best_constant")
    minimum = facts.number("smallest_loss") or 0.0
    if loss is None or constant is None or not math.isfinite(loss) or facts.holds("summed"):
        return
    if evidence.about("labels").number("different") == 1 or facts.holds("broadcast"):
        return
    labels = evidence.about("labels")
    if labels.number("different") and (labels.number("samples") or 0) < (
        facts.number("num_outputs") or 0
    ):
        # few of a thousand classes are in the batch: even odds for all of them are a sound start
        constant = max(constant, math.log(facts.number("num_outputs") or 1.0))
    room = max(constant - minimum, 1e-6)
    times = (loss - minimum) / room
    if times > thresholds["poor_start"]:
        yield POOR_START.finding(
            problem_if(times > thresholds["poor_start_severe"]),
            score=decades(times),
            loss=loss,
            best_constant=constant,
            times=times,
        )


POOR_START = Rule(
    code="poor-start",
    stage=CausalStage.OUTCOME,
    cause="initialization",
    title="A first loss far above the constant baseline",
    explanation="The network begins with large and confident errors; the first steps only undo them.",
    source="the smallest loss of one prediction for all samples, from the targets",
    advice="Scale inputs and targets; initialize the last layer small, or its bias with the mean of "
    "the targets.",
    reads=("labels", "output"),
    thresholds={
        "poor_start": Threshold(3.0, "first loss over that of the constant baseline", MEASURED),
        "poor_start_severe": Threshold(800.0, "the same, a problem", NINE_IN_TEN),
    },
    find=poor_start,
    effects=("overshooting-step", "exploding-gradient"),
    downstream=("large-update", "loss-does-not-fall"),
    initial_only=True,
)


def overshooting_step(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A step that raises the loss of its own batch, by what the constant baseline would cost."""
    step, facts = evidence.about("step"), evidence.about("output")
    after, loss, constant = (
        step.number("loss_after"),
        facts.number("loss"),
        facts.number("best_constant"),
    )
    minimum = facts.number("smallest_loss") or 0.0
    if after is None or loss is None or not math.isfinite(loss):
        return
    base = max(loss, constant if constant is not None else loss) - minimum
    times = math.inf if not math.isfinite(after) else (after - minimum) / max(base, 1e-9)
    if after > loss and times > thresholds["overshoot"]:
        yield OVERSHOOTING_STEP.finding(
            problem_if(times > thresholds["overshoot_severe"]),
            score=decades(times),
            loss=loss,
            loss_after_the_step=after,
            times=times,
            learning_rate=step.number("learning_rate"),
        )


OVERSHOOTING_STEP = Rule(
    code="overshooting-step",
    stage=CausalStage.OUTCOME,
    cause="learning-rate",
    title="A step that raises the loss of its own batch",
    explanation="The loss of the very batch that the gradient was computed on rises: the step is longer "
    "than the curvature allows.",
    source="gradient descent on a quadratic lowers the loss for learning rates below 2/λmax",
    advice="Lower the learning rate, tenfold at first, or warm it up.",
    reads=("step", "output"),
    thresholds={
        "overshoot": Threshold(
            1.5, "loss after a step over the one before or the constant baseline's", MEASURED
        ),
        "overshoot_severe": Threshold(50.0, "the same, a problem", MEASURED),
    },
    when=(When("step.loss_after", above="output.loss"),),
    find=overshooting_step,
    effects=("loss-does-not-fall", "unstable-rate", "large-update"),
)


def small_budget(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Steps that, each gaining what the first gains, do not halve the loss."""
    facts, step = evidence.about("output"), evidence.about("step")
    loss, after = facts.number("loss"), step.number("loss_after")
    if evidence.budget is None or loss is None or after is None or not math.isfinite(after):
        return
    gain = loss - after
    room = loss - (facts.number("smallest_loss") or 0.0)
    if gain <= 0 or room <= 0:
        return
    reach = evidence.budget * gain / (1 - min(step.number("momentum") or 0.0, 0.99))
    fraction = reach / room
    if fraction < thresholds["budget"]:
        yield SMALL_BUDGET.finding(
            problem_if(fraction < thresholds["budget_severe"]),
            score=decades(fraction),
            cause="learning-rate" if fraction < thresholds["budget_rate"] else "budget",
            steps=evidence.budget,
            gain_of_a_step=gain,
            fraction_of_the_loss_in_reach=fraction,
            steps_for_half=math.ceil(0.5 * evidence.budget / fraction),
        )


SMALL_BUDGET = Rule(
    code="small-budget",
    stage=CausalStage.OUTCOME,
    cause="budget",
    title="Too few steps at this learning rate",
    explanation="Even if every step gained as much as the first, the loss would not be halved by the end "
    "of the planned steps.",
    source="steps × the gain of the first step, times 1/(1 − momentum)",
    advice="Train for more steps, or raise the learning rate.",
    reads=("output", "step"),
    thresholds={
        "budget": Threshold(
            0.5,
            "fraction of the loss that the planned steps can remove, each gaining what the first gains",
            "less than half",
        ),
        "budget_severe": Threshold(0.25, "the same, a problem", "half of it"),
        "budget_rate": Threshold(
            0.02,
            "the same, below which the learning rate is named and not the steps",
            "25 times the steps",
        ),
    },
    when=("budget",),
    find=small_budget,
    downstream=("loss-does-not-fall",),
    initial_only=True,
)


def loss_does_not_fall(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A loss that after some steps on its own batch is where it was, or above."""
    steps = evidence.about("look_ahead")
    first, last = steps.number("first_loss"), steps.number("last_loss")
    if first is None or last is None or not math.isfinite(first):
        return
    floor = evidence.about("output").number("smallest_loss") or 0.0
    room = first - floor
    if room <= 1e-9 * abs(first):
        return
    fraction = (last - floor) / room if math.isfinite(last) else math.inf
    if fraction > thresholds["fall"]:
        number = int(steps.number("steps") or 0)
        result = LOSS_DOES_NOT_FALL.finding(
            problem_if(fraction > thresholds["rise"]),
            score=decades(fraction),
            loss=first,
            loss_at_the_end=last,
            steps=number,
        )
        yield replace(result, step=number)


LOSS_DOES_NOT_FALL = Rule(
    code="loss-does-not-fall",
    stage=CausalStage.OUTCOME,
    cause="learning-rate",
    title="The loss does not decrease",
    explanation="After some steps on this very batch the loss is where it was, or above.",
    source="a few steps on a copy",
    advice="Lower the learning rate where the loss rises, raise it where it stays; look at the "
    "findings above first.",
    reads=("look_ahead", "output"),
    thresholds={
        "fall": Threshold(
            0.97,
            "loss after the look-ahead over that before",
            "of 170 random networks without another problem, 14 of 26 that fail and none of 14 that train",
        ),
        "rise": Threshold(
            1.1, "the same, a problem", "a tenth above the first loss on its own batch"
        ),
    },
    when=("look_ahead.first_loss",),
    find=loss_does_not_fall,
)


def _head_starts_at_zero(evidence: Evidence) -> bool:
    return bool(evidence.about("parameters").holds("zero_head"))
