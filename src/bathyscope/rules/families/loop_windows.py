"""What a loop adds up between two steps: micro-batches that are lost, of unlike size, or left over."""

from collections.abc import Iterator
from statistics import median

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.families.loop_gradients import MOST_STEPS, SMALLEST_STEPS
from bathyscope.rules.rule import OF_WRONG_SCALE, CausalStage, Rule, Threshold, Thresholds


def accumulation_cleared(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Micro-batches whose gradients are cleared before the step that was to add them up."""
    for use in record.optimizers:
        windows = sum(use.micro_batches.values())  # those whose lines are known
        if windows < thresholds["loop_steps"]:
            continue
        fraction = use.cleared_windows / windows
        if fraction >= thresholds["loop_habit"]:
            yield ACCUMULATION_CLEARED.finding(
                Severity.PROBLEM, score=fraction,
                steps=use.steps, lost_passes=use.cleared_passes, at=use.cleared_at,
                backward_at=use.backward_at,
                title=f"zero_grad at {use.cleared_at} clears the gradients of {use.cleared_passes} "
                f"backward passes at {use.backward_at} before step at {use.stepped_at} has used them",
            )  # fmt: skip


ACCUMULATION_CLEARED = Rule(
    code="accumulation-cleared",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Accumulated gradients that are cleared before the step",
    explanation="The step sees the last micro-batch alone: the others are computed in vain.",
    source="backward adds to .grad, and zero_grad clears it",
    advice="Clear gradients once per step: right after optimizer.step().",
    thresholds={"loop_steps": SMALLEST_STEPS, "loop_habit": MOST_STEPS},
    find_in_loop=accumulation_cleared,
)


def mean_of_means(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Micro-batches with unlike numbers of targets whose means weigh the same."""
    for use in record.optimizers:
        if len(use.count_ratios) < thresholds["loop_steps"] or use.has_closure:
            continue
        ratio = median(use.count_ratios)
        if ratio >= thresholds["unlike_targets"]:
            yield MEAN_OF_MEANS.finding(
                Severity.WARNING,
                score=ratio,
                most_over_fewest=ratio,
                at=use.backward_at,
                title=f"Micro-batches added up at {use.backward_at} weigh the same, though the targets of "
                f"one are {ratio:.1f} times as many as those of another",
            )


MEAN_OF_MEANS = Rule(
    code="mean-of-means",
    stage=CausalStage.LOOP,
    cause="loop",
    title="A mean of means over unlike micro-batches",
    explanation="A target in a short micro-batch weighs more than one in a long one: the gradient is not "
    "that of the joined batch.",
    source="the mean over all targets weighs each mean by its number of targets",
    advice="Sum the losses of all micro-batches, and divide by the number of all their targets.",
    thresholds={
        "loop_steps": SMALLEST_STEPS,
        "unlike_targets": Threshold(
            1.5,
            "most targets of a micro-batch over the fewest, by their weights",
            "half as many again",
        ),
    },
    find_in_loop=mean_of_means,
)


def short_window(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Windows with fewer micro-batches than the others, divided by the number of the others."""
    for use in record.optimizers:
        total = sum(use.micro_batches.values())
        if total < 2 * thresholds["loop_steps"] or not use.mean_weights or use.has_closure:
            continue
        usual, _ = use.micro_batches.most_common(1)[0]
        short = sum(n for number, n in use.micro_batches.items() if 0 < number < usual)
        is_divided = median(use.mean_weights) < 1.1
        if usual > 1 and short and is_divided and short < 0.4 * total:
            yield SHORT_WINDOW.finding(
                Severity.WARNING if short > 0.2 * total else Severity.NOTE, score=short / total,
                windows=total, short=short, micro_batches=usual, at=use.backward_at,
                title=f"{short} of {total} steps add up fewer than {usual} micro-batches, and divide by "
                f"{usual} all the same",
            )  # fmt: skip


SHORT_WINDOW = Rule(
    code="short-window",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Steps with fewer micro-batches than the others",
    explanation="Their gradient is smaller by the fraction that is missing: the last samples of an epoch "
    "count for less.",
    source="the number of batches of an epoch is not a multiple of the accumulation",
    advice="Divide by the micro-batches that the window has, or drop what is left over.",
    thresholds={"loop_steps": SMALLEST_STEPS},
    find_in_loop=short_window,
)


def skipped_steps(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A scaler of the loss that leaves out most steps."""
    for use in record.optimizers:
        wanted = use.steps + use.skipped
        if use.skipped < thresholds["skipped_steps"] or use.skipped < 0.5 * wanted:
            continue
        yield SKIPPED_STEPS.finding(
            Severity.PROBLEM, score=use.skipped / wanted, skipped=use.skipped, of=wanted,
            optimizer=use.kind, at=use.created_at,
            title=f"The gradient scaler leaves out {use.skipped} of {wanted} steps: gradients are NaN or Inf",
        )  # fmt: skip


SKIPPED_STEPS = Rule(
    code="skipped-steps",
    stage=CausalStage.LOOP,
    cause="precision",
    title="Steps that the gradient scaler leaves out",
    explanation="A scaler leaves out a step whose gradient is NaN or Inf, and lowers its scale: where this "
    "continues, the scale is set back, or gradients are non-finite at any scale.",
    source="GradScaler.step skips the optimizer where it finds Inf or NaN",
    advice="Let scaler.update() choose the scale, once per step; where the loss itself is NaN, look there.",
    thresholds={
        "skipped_steps": Threshold(
            20.0,
            "steps left out, and at least half of all",
            "a scale of 2¹⁶ is halved at most about 16 times before gradients fit",
        )
    },
    find_in_loop=skipped_steps,
    effects=("small-update", "loss-does-not-fall"),
)


def turns_non_finite(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A loss, gradient or weight that became NaN or Inf."""
    if record.first_non_finite is not None:
        step, where = record.first_non_finite
        source = "by the step itself" if where == "weights" else "before the step"
        yield TURNS_NON_FINITE.finding(
            Severity.PROBLEM,
            score=1.0,
            step=step,
            where=where,
            of=record.steps,
            title=f"The {where} became NaN or Inf at step {step}, {source}",
        )


TURNS_NON_FINITE = Rule(
    code="turns-non-finite",
    stage=CausalStage.OUTCOME,
    cause="learning-rate",
    title="A training that turns to NaN or Inf",
    explanation="From then on every weight is NaN, and nothing more is learned.",
    source="IEEE 754 arithmetic",
    advice="Lower the learning rate, clip gradients, or look at the batch of this step; watch(model) says in "
    "which block it began.",
    find_in_loop=turns_non_finite,
    effects=("non-finite", "rounded-updates"),
)


def scaled_gradients_stepped(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Steps on gradients that are still multiplied by the loss scale."""
    for use in record.optimizers:
        rows = record.optimizer_rows(use.index)
        scaled = [row for row in rows if row.left_scale is not None and row.left_scale > 1]
        if len(scaled) < max(thresholds["loop_steps"], thresholds["loop_habit"] * len(rows)):
            continue
        # Adam divides the scale out again, but for its epsilon and clipping
        severity = Severity.WARNING if use.second_decay is not None else Severity.PROBLEM
        scale = scaled[-1].left_scale
        yield SCALED_GRADIENTS_STEPPED.finding(
            severity,
            score=scale or 1.0,
            scale=scale,
            steps=len(scaled),
            at=use.stepped_at,
            title=f"step at {use.stepped_at} follows gradients that are still multiplied by the loss "
            f"scale of {scale:g}",
        )


SCALED_GRADIENTS_STEPPED = Rule(
    code="scaled-gradients-stepped",
    stage=CausalStage.LOOP,
    cause="precision",
    title="Steps along scaled gradients",
    explanation="The scaler has multiplied the loss, and nothing has divided the gradients: each step of "
    "SGD is longer by this factor.",
    source="scaler.step(optimizer) divides by the scale before it steps; optimizer.step() does not",
    advice="Call scaler.step(optimizer) and scaler.update() in place of optimizer.step().",
    thresholds={"loop_steps": SMALLEST_STEPS, "loop_habit": MOST_STEPS},
    find_in_loop=scaled_gradients_stepped,
    effects=OF_WRONG_SCALE,
)
