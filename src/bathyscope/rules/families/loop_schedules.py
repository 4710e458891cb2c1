"""The learning rate over time, and what is lost when optimizers and schedules are made again."""

import itertools
from collections.abc import Iterator
from statistics import fmean

from bathyscope.core.loop_record import LoopRecord, OptimizerUse, StepRow
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.families.loop_gradients import SMALLEST_STEPS
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, problem_if


def zero_learning_rate(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A learning rate that is zero from the first step on; one step of it is how warm-ups begin."""
    for use in record.optimizers:
        yield from _zero_groups(use, thresholds)
        if use.leading_zero_lr < thresholds["zero_lr_steps"]:
            continue
        schedules = [s for s in record.schedules if s.optimizer == use.index]
        at = schedules[0].created_at if schedules else use.created_at
        until = "all" if use.highest_lr == 0 else "the first"
        yield ZERO_LEARNING_RATE.finding(
            problem_if(use.highest_lr == 0),
            score=use.leading_zero_lr / use.steps,
            steps=use.leading_zero_lr, of=use.steps, at=at,
            schedule=schedules[0].kind if schedules else None,
            title=f"The learning rate is zero at {until} {use.leading_zero_lr} steps"
            + (f": see the schedule made at {at}" if schedules else ""),
        )  # fmt: skip


def _zero_groups(use: OptimizerUse, thresholds: Thresholds) -> Iterator[Finding]:
    """Groups of parameters whose rate is never above zero, while that of another group is."""
    still = [number for number, lr in enumerate(use.group_lrs) if lr == 0]
    if not still or use.highest_lr == 0 or use.steps < thresholds["zero_lr_steps"]:
        return
    which = ", ".join(str(number) for number in still[:4])
    yield ZERO_LEARNING_RATE.finding(
        Severity.WARNING, score=len(still) / len(use.group_lrs),
        groups=len(still), of_groups=len(use.group_lrs), steps=use.steps, at=use.created_at,
        title=f"Group {which} of the parameters of {use.kind} has a learning rate of zero at all "
        f"{use.steps} steps, and another group has not",
    )  # fmt: skip


ZERO_LEARNING_RATE = Rule(
    code="zero-learning-rate",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A learning rate that stays zero",
    explanation="Nothing moves, whatever the gradients are.",
    source="an update is a multiple of the learning rate",
    advice="Let the warm-up rise from its first step: step / warmup rather than step // warmup.",
    thresholds={
        "zero_lr_steps": Threshold(
            5.0,
            "steps at a learning rate of zero from the first one on",
            "LambdaLR warm-ups have one of them; a schedule stepped per epoch can have an epoch",
        )
    },
    find_in_loop=zero_learning_rate,
    effects=("small-update", "loss-does-not-fall"),
)


def learning_rate_gone(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A learning rate that has fallen to nothing in the first half, while the loss is still high."""
    for use in record.optimizers:
        rows = [row for row in record.optimizer_rows(use.index) if row.lr == row.lr]
        if use.steps < 20 or len(rows) < 20 or use.highest_lr <= 0:
            continue
        gone = _gone_at(rows, use.highest_lr * thresholds["gone_lr"])
        losses = [row.loss for row in rows if row.loss is not None]
        if gone is None or gone.step > rows[-1].step / 2 or len(losses) < 20:
            continue
        first, last = fmean(losses[:3]), fmean(losses[-5:])
        if first > 0 and last > thresholds["loss_left"] * first:
            schedules = [s for s in record.schedules if s.optimizer == use.index]
            yield LEARNING_RATE_GONE.finding(
                Severity.PROBLEM, score=1 - gone.step / rows[-1].step,
                step=gone.step, of=rows[-1].step, highest=use.highest_lr, lr=gone.lr,
                loss_at_first=first, loss_at_last=last,
                at=schedules[0].stepped_at if schedules else None,
                title=f"The learning rate fell below {thresholds['gone_lr']:.0%} of its highest by step "
                f"{gone.step} of {rows[-1].step}, with the loss at {last / first:.0%} of its first",
            )  # fmt: skip


def _gone_at(rows: list[StepRow], limit: float) -> StepRow | None:
    """The first row from which on the learning rate stays below a limit, behind its highest."""
    result = None
    for row in reversed(rows):
        if row.lr > limit:
            break
        result = row
    return None if result is rows[0] else result


LEARNING_RATE_GONE = Rule(
    code="learning-rate-gone",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A learning rate that is gone too soon",
    explanation="The rest of the training changes nothing, while there is much left to learn.",
    source="an update is a multiple of the learning rate",
    advice="Lengthen the schedule: is it stepped per batch while it counts epochs?",
    thresholds={
        "gone_lr": Threshold(0.01, "learning rate over its highest", "two decades"),
        "loss_left": Threshold(
            0.25, "last loss over the first", "a quarter: what is fitted needs no steps"
        ),
    },
    find_in_loop=learning_rate_gone,
    effects=("small-update",),
)


def plateau_mode(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A schedule that waits for the largest value of something that falls as the loss does."""
    losses = record.losses
    if len(losses) < 10:
        return
    is_falling = fmean(losses[-3:]) < fmean(losses[:3])
    for use in record.schedules:
        values = [v for v in use.metrics if v == v]
        if use.mode != "max" or len(values) < 4 or not use.reductions:
            continue
        downs = sum(b < a for a, b in itertools.pairwise(values))
        if is_falling and values[-1] < values[0] and downs >= 0.6 * (len(values) - 1):
            yield PLATEAU_MODE.finding(
                Severity.PROBLEM, score=float(len(use.reductions)),
                reductions=len(use.reductions), first=values[0], last=values[-1], at=use.stepped_at,
                title=f"{use.kind}(mode='max') at {use.stepped_at} is given a value that falls while "
                "the network learns, and takes that for a plateau",
            )  # fmt: skip


PLATEAU_MODE = Rule(
    code="plateau-mode",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A plateau schedule that waits for the loss to grow",
    explanation="Every improvement counts as none, and the learning rate falls again and again.",
    source="ReduceLROnPlateau compares with the best so far in its mode",
    advice="Use mode='min' for a loss, mode='max' for an accuracy.",
    find_in_loop=plateau_mode,
    effects=("learning-rate-gone", "small-update"),
)


def schedule_pace(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Schedules that are stepped several times for each step of their optimizer."""
    for use in record.schedules:
        windows = {k: n for k, n in use.per_update.items() if k > 0}
        total = sum(windows.values())
        if total < thresholds["loop_steps"]:
            continue
        number, count = max(windows.items(), key=lambda item: item[1])
        if number > 1 and count >= 0.8 * total:
            yield SCHEDULE_PACE.finding(
                Severity.PROBLEM, score=float(number),
                steps_per_update=number, schedule=use.kind, at=use.stepped_at,
                title=f"scheduler.step() at {use.stepped_at} is called {number} times for each "
                "optimizer.step()",
            )  # fmt: skip


SCHEDULE_PACE = Rule(
    code="schedule-pace",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A schedule that runs faster than the training",
    explanation="It has run its course long before the training has.",
    source="a schedule counts its own steps",
    advice="Step the schedule once per optimizer step, or count its length in what steps it.",
    thresholds={"loop_steps": SMALLEST_STEPS},
    find_in_loop=schedule_pace,
    effects=("learning-rate-gone",),
)


def schedule_overrun(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A cosine that is stepped beyond its end, where it rises again."""
    for use in record.schedules:
        if use.kind == "CosineAnnealingLR" and use.period and use.steps > 1.1 * use.period + 1:
            yield SCHEDULE_OVERRUN.finding(
                Severity.WARNING, score=use.steps / use.period,
                steps=use.steps, period=use.period, at=use.stepped_at,
            )  # fmt: skip


SCHEDULE_OVERRUN = Rule(
    code="schedule-overrun",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A cosine schedule that is stepped beyond its end",
    explanation="Behind T_max the cosine rises again, so that the learning rate oscillates.",
    source="CosineAnnealingLR is periodic",
    advice="Set T_max to the number of times that the schedule is stepped.",
    find_in_loop=schedule_overrun,
)


def optimizer_made_again(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Optimizers with moments that take the place of one another, or that lose their state."""
    again = [use for use in record.optimizers if use.replaces is not None and use.has_moments]
    stepped = [use for use in again if use.steps]
    if len(again) >= thresholds["made_again"] and record.steps:
        last = stepped[-1] if stepped else again[-1]
        yield OPTIMIZER_MADE_AGAIN.finding(
            Severity.PROBLEM, score=float(len(again)),
            times=record.optimizers_made, steps=record.steps, at=last.created_at,
            title=f"{last.kind} is made again at {last.created_at}, {record.optimizers_made} times in "
            f"{record.steps} steps: its moments are lost each time",
        )  # fmt: skip
        return
    for use in record.optimizers:
        if use.state_resets >= thresholds["made_again"]:
            yield OPTIMIZER_MADE_AGAIN.finding(
                Severity.PROBLEM, score=float(use.state_resets),
                state_resets=use.state_resets, at=use.stepped_at,
            )  # fmt: skip


OPTIMIZER_MADE_AGAIN = Rule(
    code="optimizer-made-again",
    stage=CausalStage.LOOP,
    cause="loop",
    title="An optimizer that is made again and again",
    explanation="Its moments and its count of steps begin at zero each time: Adam takes first steps only.",
    source="the state of an optimizer lives in the object",
    advice="Make the optimizer once, before the loop.",
    thresholds={
        "made_again": Threshold(
            3.0, "optimizers that replace another one", "two phases of fine-tuning make two"
        )
    },
    find_in_loop=optimizer_made_again,
)


def schedule_made_again(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Schedules of one optimizer that are made at different times."""
    for use in record.optimizers:
        made = {s.made_after for s in record.schedules if s.optimizer == use.index}
        if len(made) > thresholds["made_again"]:
            last = [s for s in record.schedules if s.optimizer == use.index][-1]
            yield SCHEDULE_MADE_AGAIN.finding(
                Severity.WARNING, score=float(len(made)), times=len(made), at=last.created_at
            )


SCHEDULE_MADE_AGAIN = Rule(
    code="schedule-made-again",
    stage=CausalStage.LOOP,
    cause="schedule",
    title="A schedule that is made again and again",
    explanation="It begins at its first value each time, and never gets anywhere.",
    source="a schedule counts its own steps",
    advice="Make the schedule once, before the loop.",
    thresholds={"made_again": OPTIMIZER_MADE_AGAIN.thresholds["made_again"]},
    find_in_loop=schedule_made_again,
)
