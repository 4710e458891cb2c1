"""Settings of optimizers and schedules that do not do what they were written for."""

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from bathyscope.core.loop_record import LoopRecord, ScheduleUse, StepRow
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.families.loop_gradients import SMALLEST_STEPS
from bathyscope.rules.rule import OF_WRONG_SCALE, CausalStage, Rule, Threshold, Thresholds


def schedule_overwritten(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Schedules whose learning rate something else replaces before each step."""
    for use in record.schedules:
        if use.compared < 2 * thresholds["loop_steps"]:
            continue
        fraction = use.overwritten / use.compared
        if fraction >= thresholds["overwritten"]:
            yield SCHEDULE_OVERWRITTEN.finding(
                Severity.PROBLEM, score=fraction,
                steps=use.compared, overwritten=use.overwritten, schedule=use.kind, at=use.stepped_at,
                title=f"The learning rate that {use.kind} sets at {use.stepped_at} is replaced by "
                f"another one at {use.overwritten} of {use.compared} steps",
            )  # fmt: skip


SCHEDULE_OVERWRITTEN = Rule(
    code="schedule-overwritten",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A schedule whose learning rate is written over",
    explanation="The schedule has no effect: the steps are taken at the learning rate that was written last.",
    source="the learning rate after scheduler.step() and at the next optimizer.step()",
    advice="Set the learning rate in one place: by the schedule, or by hand.",
    thresholds={
        "loop_steps": SMALLEST_STEPS,
        "overwritten": Threshold(
            0.8, "fraction of the steps", "a warm-up by hand before a schedule covers fewer"
        ),
    },
    find_in_loop=schedule_overwritten,
)


def schedule_of_another_optimizer(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Schedules of an optimizer that takes no steps, beside one that does."""
    by_index = {use.index: use for use in record.optimizers}
    for use in record.schedules:
        held = by_index.get(use.optimizer) if use.optimizer is not None else None
        others = [o for o in record.optimizers if o.steps >= thresholds["loop_steps"]]
        if held is None or held.steps or use.steps < thresholds["loop_steps"] or not others:
            continue
        yield SCHEDULE_OF_ANOTHER_OPTIMIZER.finding(
            Severity.PROBLEM, score=float(use.steps),
            schedule=use.kind, steps=use.steps, at=use.created_at, step_at=others[0].stepped_at,
            title=f"{use.kind} made at {use.created_at} turns the learning rate of an optimizer that "
            f"never steps; the one that steps at {others[0].stepped_at} has no schedule",
        )  # fmt: skip


SCHEDULE_OF_ANOTHER_OPTIMIZER = Rule(
    code="schedule-of-another-optimizer",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A schedule of an optimizer that is not used",
    explanation="The learning rate of the training never changes.",
    source="a schedule writes into the optimizer that it was made with",
    advice="Make the schedule after the optimizer that takes the steps, and with that one.",
    thresholds={"loop_steps": SMALLEST_STEPS},
    find_in_loop=schedule_of_another_optimizer,
)


def learning_rate_never_arrives(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Warm-ups that are stepped so rarely that the training stays below them."""
    for use in record.schedules:
        rows = [r for r in record.optimizer_rows(use.optimizer or 0) if math.isfinite(r.lr)]
        yield from _one_cycle_by_epoch(use, rows)
        losses = [r.loss for r in rows if r.loss is not None and math.isfinite(r.loss)]
        if use.optimizer is None or len(rows) < 20 or len(losses) < 20 or not use.base_lr > 0:
            continue
        is_slow = use.steps < 0.25 * rows[-1].step
        rises = all(a.lr <= b.lr for a, b in itertools.pairwise(rows))
        first, last = fmean(losses[:5]), fmean(losses[-5:])
        has_learned = last < thresholds["loss_kept"] * first
        if (
            is_slow
            and rises
            and rows[-1].lr < thresholds["arrived"] * use.base_lr
            and not has_learned
        ):
            yield LEARNING_RATE_NEVER_ARRIVES.finding(
                Severity.WARNING, score=1 - rows[-1].lr / use.base_lr,
                lr=rows[-1].lr, base_lr=use.base_lr, schedule_steps=use.steps, at=use.stepped_at,
                title=f"The warm-up has come to {rows[-1].lr / use.base_lr:.0%} of the learning rate after "
                f"{rows[-1].step} steps: scheduler.step() at {use.stepped_at} was called {use.steps} times",
            )  # fmt: skip


def _one_cycle_by_epoch(use: ScheduleUse, rows: Sequence[StepRow]) -> Iterator[Finding]:
    """OneCycleLR, which counts batches, stepped far more rarely."""
    steps = rows[-1].step + 1 if rows else 0
    if use.kind != "OneCycleLR" or not use.period or steps < use.period or use.made_after:
        return
    if use.steps < 0.1 * steps:
        yield LEARNING_RATE_NEVER_ARRIVES.finding(
            Severity.WARNING, score=1 - use.steps / steps,
            lr=rows[-1].lr, schedule_steps=use.steps, of_its_steps=use.period, at=use.stepped_at,
            title=f"OneCycleLR at {use.stepped_at} was stepped {use.steps} times in {steps} steps: of its "
            f"cycle of {use.period} it has gone {use.steps / use.period:.0%}",
        )  # fmt: skip


LEARNING_RATE_NEVER_ARRIVES = Rule(
    code="learning-rate-never-arrives",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A warm-up that does not arrive",
    explanation="The learning rate stays far below the one that was chosen.",
    source="a schedule counts its own steps",
    advice="Step a warm-up that counts steps once per optimizer step, not once per epoch.",
    thresholds={
        "arrived": Threshold(0.25, "last learning rate over that of the optimizer", "a quarter"),
        "loss_kept": Threshold(
            0.7, "last loss over the first", "what has fallen by a third is being learned"
        ),
    },
    find_in_loop=learning_rate_never_arrives,
    effects=("small-update", "small-budget", "loss-does-not-fall"),
)


def learning_rate_grows(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Learning rates that never stop to rise, in a training whose loss rises since."""
    for use in record.optimizers:
        rows = [r for r in record.optimizer_rows(use.index) if math.isfinite(r.lr)]
        losses = [r.loss for r in rows if r.loss is not None]
        if len(rows) < thresholds["rising_steps"] or len(losses) != len(rows):
            continue
        eighth = len(rows) // 8
        rises = all(a.lr <= b.lr for a, b in itertools.pairwise(rows))
        still = rows[-1].lr > rows[-eighth].lr and rows[-1].lr > 2 * rows[len(rows) // 4].lr
        parts = [fmean(losses[k : k + eighth]) for k in range(0, len(losses) - eighth + 1, eighth)]
        best = min(
            range(len(parts)), key=lambda k: parts[k] if math.isfinite(parts[k]) else math.inf
        )
        grown = parts[-1] / parts[best] if parts[best] > 0 else 1.0
        is_worse = not math.isfinite(parts[-1]) or grown > thresholds["loss_risen"]
        if rises and still and best < len(parts) - 1 and is_worse:
            yield LEARNING_RATE_GROWS.finding(
                Severity.WARNING, score=rows[-1].lr / rows[best * eighth].lr,
                lr=rows[-1].lr, lr_at_best=rows[best * eighth].lr, best_step=rows[best * eighth].step,
                at=use.stepped_at,
                title=f"The learning rate of {use.kind} grows at every step, to {rows[-1].lr:.3g}; the loss "
                f"rises since about step {rows[best * eighth].step}, at {rows[best * eighth].lr:.3g}",
            )  # fmt: skip


LEARNING_RATE_GROWS = Rule(
    code="learning-rate-grows",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A learning rate that never stops growing",
    explanation="A warm-up without an end raises the learning rate until the steps are too long.",
    source="the learning rate at each step, and the mean loss of each eighth of them",
    advice="End the warm-up: min(1.0, step / warmup). In a search for a learning rate it is meant so.",
    thresholds={
        "rising_steps": Threshold(64.0, "steps of a loop", "fewer can be a warm-up"),
        "loss_risen": Threshold(
            1.2, "mean loss of the last eighth over that of the best", "more than noise does"
        ),
    },
    find_in_loop=learning_rate_grows,
    effects=OF_WRONG_SCALE,
)


def heavy_momentum(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Momentum that adds up hundreds of gradients."""
    for use in record.optimizers:
        momentum = use.momentum
        if use.steps < thresholds["loop_steps"] or momentum is None or use.second_decay is not None:
            continue
        if thresholds["momentum"] <= momentum < 1:
            yield HEAVY_MOMENTUM.finding(
                Severity.WARNING, score=momentum,
                momentum=momentum, times=1 / (1 - momentum), at=use.created_at,
                title=f"{use.kind} made at {use.created_at} has a momentum of {momentum:g}: its steps "
                f"grow to {1 / (1 - momentum):.0f} times the learning rate",
            )  # fmt: skip


HEAVY_MOMENTUM = Rule(
    code="heavy-momentum",
    stage=CausalStage.LOOP,
    cause="optimizer",
    title="A momentum near one",
    explanation="Gradients of hundreds of steps add up: the weights run on long after the gradient has "
    "turned.",
    source="Σ βᵏ = 1 / (1 − β)",
    advice="Use 0.9 to 0.99, or lower the learning rate by 1 − momentum.",
    thresholds={
        "loop_steps": SMALLEST_STEPS,
        "momentum": Threshold(0.995, "momentum of SGD", "two hundred times the learning rate"),
    },
    find_in_loop=heavy_momentum,
    effects=OF_WRONG_SCALE,
)


def reversed_betas(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Adam whose second moment forgets faster than its first."""
    for use in record.optimizers:
        first, second = use.momentum, use.second_decay
        if use.steps < thresholds["loop_steps"] or first is None or second is None:
            continue
        if second < thresholds["second_decay"] * first * first:
            yield REVERSED_BETAS.finding(
                Severity.WARNING, score=first - second, beta_1=first, beta_2=second,
                at=use.created_at,
            )  # fmt: skip


REVERSED_BETAS = Rule(
    code="reversed-betas",
    stage=CausalStage.LOOP,
    cause="optimizer",
    title="Second moments that forget faster than the first",
    explanation="A step divides a long average of gradients by the size of the last few: it jumps where "
    "these happen to be small.",
    source="Adam's bound needs β₁² < β₂ (Reddi, Kale and Kumar 2018)",
    advice="Use betas=(0.9, 0.999), the first being that of the gradient.",
    thresholds={
        "loop_steps": SMALLEST_STEPS,
        "second_decay": Threshold(0.8, "β₂ over β₁²", "1 is the bound; a fifth of room below it"),
    },
    find_in_loop=reversed_betas,
)
