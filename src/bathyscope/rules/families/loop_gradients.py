"""What a loop does with gradients between backward and step: clearing, clipping, adding up."""

from collections.abc import Iterator
from statistics import median

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.rule import (
    OF_WRONG_SCALE,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    problem_if,
)

SMALLEST_STEPS = Threshold(
    4.0,
    "steps before a loop is judged",
    "a fault of every step shows in the first ones; fewer can be a warm-up or a test",
)
_FEWEST_PASSES = 32
"""Passes from which on a habit shows."""
MOST_STEPS = Threshold(
    0.5,
    "fraction of the steps at which something must happen to be the loop's habit",
    "a loop repeats itself: a habit shows at all steps, an exception at few",
)


def gradients_not_cleared(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Optimizers whose gradients hold what earlier steps have used already."""
    for use in record.optimizers:
        if use.steps < thresholds["loop_steps"]:
            continue
        fraction = use.not_cleared / use.steps
        if fraction >= thresholds["loop_habit"]:
            yield GRADIENTS_NOT_CLEARED.finding(
                Severity.PROBLEM, score=fraction,
                steps=use.steps, not_cleared=use.not_cleared, optimizer=use.kind,
                at=use.backward_at, step_at=use.stepped_at,
                title=f"backward at {use.backward_at} adds to gradients that step at "
                f"{use.stepped_at} has used already: they are never cleared",
            )  # fmt: skip


GRADIENTS_NOT_CLEARED = Rule(
    code="gradients-not-cleared",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Gradients that are never cleared",
    explanation="Each step follows the sum of all gradients so far, most of them of old weights.",
    source="backward adds to .grad",
    advice="Call optimizer.zero_grad() once per step, before backward.",
    thresholds={"loop_steps": SMALLEST_STEPS, "loop_habit": MOST_STEPS},
    find_in_loop=gradients_not_cleared,
    effects=OF_WRONG_SCALE,
)


def no_gradient_at_step(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Optimizers that step without any gradient."""
    for use in record.optimizers:
        if use.steps < thresholds["loop_steps"]:
            continue
        fraction = use.without_gradient / use.steps
        are_zero = use.looks >= thresholds["loop_steps"] and use.zero_looks == use.looks
        if fraction < thresholds["loop_habit"] and not are_zero:
            continue
        if use.cleared_before_step >= thresholds["loop_habit"] * use.without_gradient:
            reason = f"zero_grad at {use.cleared_at} clears them between backward and step"
        elif record.backward_passes == 0:
            reason = "backward is never called"
        elif 2 * use.leaf_losses >= record.backward_passes:
            reason = "the loss was wrapped into a new tensor, as by torch.tensor(loss): backward ends there"
        elif are_zero and use.without_gradient < use.steps:
            reason = (
                "all are exactly zero: no parameter that it holds changes the loss, as where two factors "
                "of a product both begin at zero"
            )
        else:
            reason = "no backward pass reaches the parameters that this optimizer holds"
        yield NO_GRADIENT_AT_STEP.finding(
            Severity.PROBLEM, score=fraction,
            steps=use.steps, without_gradient=use.without_gradient, optimizer=use.kind,
            at=use.stepped_at, cleared_at=use.cleared_at,
            title=f"step of {use.kind} at {use.stepped_at} finds no gradients: {reason}",
        )  # fmt: skip


NO_GRADIENT_AT_STEP = Rule(
    code="no-gradient-at-step",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Steps without a gradient",
    explanation="The optimizer has nothing to follow, so no weight moves.",
    source="an optimizer skips parameters whose .grad is None",
    advice="Clear gradients before backward rather than after it, and build the optimizer from the "
    "parameters of the model that is trained.",
    thresholds={"loop_steps": SMALLEST_STEPS, "loop_habit": MOST_STEPS},
    find_in_loop=no_gradient_at_step,
    effects=("zero-gradient", "loss-does-not-fall"),
)


def clip_before_backward(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Clipping that comes before there is anything to clip."""
    for use in record.clips:
        if use.calls < thresholds["loop_steps"]:
            continue
        fraction = max(use.before_backward, use.without_gradient) / use.calls
        if fraction >= thresholds["loop_habit"]:
            yield CLIP_BEFORE_BACKWARD.finding(
                Severity.PROBLEM, score=fraction,
                calls=use.calls, before_backward=use.before_backward,
                without_gradient=use.without_gradient, at=use.at,
                title=f"gradients are clipped at {use.at} before backward has computed them",
            )  # fmt: skip


CLIP_BEFORE_BACKWARD = Rule(
    code="clip-before-backward",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Clipping before backward",
    explanation="There are no gradients yet, so that those of the step are never clipped.",
    source="clip_grad_norm_ scales the .grad that is there when it is called",
    advice="Clip between backward (and unscale_) and step.",
    thresholds={"loop_steps": SMALLEST_STEPS, "loop_habit": MOST_STEPS},
    find_in_loop=clip_before_backward,
    effects=OF_WRONG_SCALE,
)


def clip_before_unscale(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Clipping of gradients that are still multiplied by the loss scale."""
    for use in record.clips:
        if use.calls >= thresholds["loop_steps"] and use.scaled >= (
            thresholds["loop_habit"] * use.calls
        ):
            yield CLIP_BEFORE_UNSCALE.finding(
                Severity.PROBLEM, score=use.scaled / use.calls,
                calls=use.calls, scaled=use.scaled, largest_norm=use.largest_norm, at=use.at,
                title=f"gradients are clipped at {use.at} while they are multiplied by the loss scale",
            )  # fmt: skip


CLIP_BEFORE_UNSCALE = Rule(
    code="clip-before-unscale",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Clipping of scaled gradients",
    explanation="The norm is that of the scaled loss, so that every gradient is cut to almost nothing.",
    source="GradScaler multiplies the loss, and unscale_ divides the gradients",
    advice="Call scaler.unscale_(optimizer) before clipping.",
    thresholds={"loop_steps": SMALLEST_STEPS, "loop_habit": MOST_STEPS},
    find_in_loop=clip_before_unscale,
    effects=("small-update", "loss-does-not-fall"),
)


def clipped_to_little(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Clipping that leaves a hundredth of each gradient."""
    for use in record.clips:
        factors = [f for f in use.factors if f == f]
        if len(factors) < thresholds["loop_steps"] or use.active < 0.95 * use.calls:
            continue
        typical = median(factors)
        if typical < thresholds["clip_factor"]:
            yield CLIPPED_TO_LITTLE.finding(
                Severity.WARNING, score=1 - typical,
                median_factor=typical, calls=use.calls, at=use.at,
            )  # fmt: skip


CLIPPED_TO_LITTLE = Rule(
    code="clipped-to-little",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Clipping that leaves a hundredth of every gradient",
    explanation="Every step has the same length, and the learning rate means something else than it says.",
    source="lr · min(1, limit / norm) is the learning rate in effect",
    advice="Raise the limit to about the median norm, or lower it knowingly with the learning rate.",
    thresholds={
        "loop_steps": SMALLEST_STEPS,
        "clip_factor": Threshold(
            0.01,
            "median of limit / norm",
            "clipping at 1 with norms of 1 to 30 is usual in the first steps of language models",
        ),
    },
    find_in_loop=clipped_to_little,
)


def accumulation_not_divided(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Mean losses of several micro-batches that are added up at one line and never divided."""
    for use in record.optimizers:
        windows = sum(use.micro_batches.values())
        if use.steps < thresholds["loop_steps"] or not use.mean_weights or use.has_closure:
            continue
        number, count = use.micro_batches.most_common(1)[0]
        passes = [row.passes for row in record.optimizer_rows(use.index)]
        is_habit = number > 1 and count >= 0.8 * windows and median(passes) >= number
        weight = median(use.mean_weights)
        rescaled = median(use.rescaled) if use.rescaled else 1.0
        if is_habit and weight * min(1.0, rescaled) >= thresholds["accumulated_weight"] * number:
            yield ACCUMULATION_NOT_DIVIDED.finding(
                problem_if(number >= 4), score=float(number),
                micro_batches=number, weight_of_means=weight, at=use.backward_at,
                title=f"backward at {use.backward_at} adds up {number} micro-batches that are not "
                f"divided by {number}: the gradient is {number} times as large",
            )  # fmt: skip


ACCUMULATION_NOT_DIVIDED = Rule(
    code="accumulation-not-divided",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Accumulated gradients that are not divided",
    explanation="The sum of n mean losses has n times the gradient of the mean over all of them.",
    source="the mean over a large batch is the mean of the means of its equal parts",
    advice="Divide each loss by the number of micro-batches before backward, or the learning rate.",
    thresholds={
        "loop_steps": SMALLEST_STEPS,
        "accumulated_weight": Threshold(
            0.9, "sum of the weights of the means over their number", "1 where nothing is divided"
        ),
    },
    find_in_loop=accumulation_not_divided,
    effects=OF_WRONG_SCALE,
)


def accumulation_divided_twice(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Micro-batches whose mean is divided by their number once more.

    Where all of it is in the loss, a weight of its own, as of ½ (y − t)², looks the same: then it is a note.
    """
    for use in record.optimizers:
        if use.steps < thresholds["loop_steps"] or not use.mean_weights or use.has_closure:
            continue
        number = use.micro_batches.most_common(1)[0][0]
        factors = use.rescaled or [1.0]
        is_steady = max(factors) <= 1.01 * min(factors)
        whole = median(use.mean_weights) * median(factors)
        if number > 1 and is_steady and abs(whole * number - 1) < thresholds["twice_divided"]:
            is_sure = median(factors) < 0.9
            title = (
                f"The {number} micro-batches of backward at {use.backward_at} are divided by {number} "
                f"twice: the gradient is {number} times too small"
            )
            meant = f", unless the loss is to have a weight of 1/{number}"
            yield ACCUMULATION_DIVIDED_TWICE.finding(
                Severity.WARNING if is_sure else Severity.NOTE, score=float(number),
                micro_batches=number, weight_of_gradient=whole, at=use.backward_at,
                title=title if is_sure else title + meant,
            )  # fmt: skip


ACCUMULATION_DIVIDED_TWICE = Rule(
    code="accumulation-divided-twice",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Accumulated gradients that are divided twice",
    explanation="The loss of each micro-batch is divided by their number, and so is the sum: each step is "
    "shorter by this number than the learning rate says.",
    source="the mean over a large batch is the mean of the means of its equal parts",
    advice="Divide once: the loss of each micro-batch, or the gradient before the step.",
    thresholds={
        "loop_steps": SMALLEST_STEPS,
        "twice_divided": Threshold(
            0.1,
            "distance from 1 of the number of micro-batches times the weight of their mean",
            "0 where it is divided twice, the number less 1 where it is divided once",
        ),
    },
    find_in_loop=accumulation_divided_twice,
    effects=("small-update", "small-budget"),
)


def passes_without_backward(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Passes in train mode with gradients, to most of which no backward pass ever comes back."""
    for model in record.models:
        if not model.is_trained or model.wrapper or model.followed < _FEWEST_PASSES:
            continue
        if not (record.backward_passes or record.steps):
            lost = record.data.non_finite
            why = ": their inputs are NaN or Inf somewhere" if lost else ""
            yield PASSES_WITHOUT_BACKWARD.finding(
                Severity.PROBLEM, score=1.0,
                passes=model.followed, inputs_non_finite=lost, at=model.called_at,
                title=f"None of {model.train_passes} passes of {model.kind} at {model.called_at} with "
                f"gradients was followed by a backward pass{why}",
            )  # fmt: skip
            continue
        fraction = model.with_backward / model.followed
        if 0 < fraction < thresholds["with_backward"]:
            yield PASSES_WITHOUT_BACKWARD.finding(
                Severity.WARNING, score=1 - fraction,
                passes=model.followed, with_backward=model.with_backward, at=model.called_at,
                title=f"Of {model.followed} passes of {model.kind} at {model.called_at} in train mode only "
                f"{model.with_backward} were followed by a backward pass",
            )  # fmt: skip


PASSES_WITHOUT_BACKWARD = Rule(
    code="passes-without-backward",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Batches that nothing is learned from",
    explanation="Their losses are computed and thrown away: often loss.backward() and optimizer.step() stand "
    "outside of the inner loop.",
    source="gradients at the outputs of the first 64 passes",
    advice="Call loss.backward() and optimizer.step() for each batch; run passes that are not to be learned "
    "from in eval mode under torch.no_grad().",
    thresholds={
        "with_backward": Threshold(
            0.2, "fraction of passes that a backward pass reaches", "one in five"
        )
    },
    find_in_loop=passes_without_backward,
)
