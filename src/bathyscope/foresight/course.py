"""The first steps of a training as a copy takes them: its schedule, clipping and accumulation are kept."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.losses import lowest_loss
from bathyscope.core.nested import tensors_in
from bathyscope.core.preserve import preserve_buffers
from bathyscope.core.progress import report_progress
from bathyscope.core.rate_plan import RatePlan
from bathyscope.core.stepping import (
    TrainingStep,
    copy_with_optimizers,
    fuse_,
    take_step,
    train_steps,
)
from bathyscope.foresight.goal import targets_of
from bathyscope.foresight.readings import STAGES, Reader, Reading

FEWEST_STEPS = 40
FRACTION = 0.04
"""A look-ahead takes the larger of this many steps and this fraction of the budget."""

_ADAPTIVE = (
    "adam",
    "rmsprop",
    "adagrad",
    "adadelta",
    "lion",
    "adafactor",
    "sophia",
    "lamb",
    "muon",
)


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How a training is meant to be run.

    Attributes:
        budget: steps.
        rates: of every step.
        is_scheduled: whether the rates are set by the plan; otherwise the optimizer keeps its own.
        clip: the largest norm of the gradient, or None.
        accumulate: batches a step.
    """

    budget: int
    rates: RatePlan
    is_scheduled: bool = False
    clip: float | None = None
    accumulate: int = 1


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """What the first steps of a training showed.

    Attributes:
        losses: before each step.
        gradient_norms: of each step, before clipping.
        readings: of the copy at the stages and after the last step.
        plan: how the training is meant to be run.
        baseline: the constant baseline's loss; None where it is not known.
        batch_size: samples a step.
        num_parameters: that are trained.
        is_adaptive: whether the optimizer scales each parameter's step by its own gradients.
        has_momentum: whether the optimizer has momentum.
        num_batches: different ones that were there.
        lowest: value that the loss can have, where it is known.
    """

    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    readings: tuple[Reading, ...]
    plan: TrainingPlan
    baseline: float | None
    batch_size: int
    num_parameters: int
    is_adaptive: bool
    has_momentum: bool
    num_batches: int
    lowest: float = -math.inf

    @property
    def is_finite(self) -> bool:
        """Whether every loss and gradient was."""
        return all(reading.finite for reading in self.readings) and math.isfinite(self.losses[-1])


def look_ahead_steps(budget: int, spend: int | None = None) -> int:
    """Steps of a look-ahead: `spend`, or a fraction of the budget; never more than the budget.

    Examples:
        >>> look_ahead_steps(300), look_ahead_steps(2000), look_ahead_steps(2000, 200), look_ahead_steps(1)
        (40, 80, 200, 1)
    """
    asked = max(FEWEST_STEPS, round(FRACTION * budget)) if spend is None else spend
    return max(1, min(asked, budget))


class PlannedStepper:
    """Optimizers that step together at the rates of a plan, with its clipping."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer], plan: TrainingPlan) -> None:
        self.optimizers, self.plan = optimizers, plan
        self.taken = 0

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Of all of them."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=set_to_none)

    def step(self) -> None:
        """Set the rates, clip, and let each take its step."""
        groups = [g for o in self.optimizers for g in o.param_groups]
        if self.plan.is_scheduled:
            for group, rate in zip(groups, self.plan.rates.at(self.taken), strict=True):
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate
        if self.plan.clip is not None:
            nn.utils.clip_grad_norm_([p for g in groups for p in g["params"]], self.plan.clip)
        for optimizer in self.optimizers:
            take_step(optimizer)
        self.taken += 1


def take_course(
    model: nn.Module,
    batches: Sequence[Batch],
    *,
    loss: LossFn,
    optimizers: Sequence[torch.optim.Optimizer],
    plan: TrainingPlan,
    steps: int,
    baseline: float | None = None,
) -> FirstSteps:
    """Train a copy for some steps and keep what it showed; it ends where something is non-finite.

    Args:
        model: left as it was, but for buffers and random state, which the caller preserves.
        batches: used over and over where they are fewer than the steps take.
        loss: a scalar from output and targets.
        optimizers: one, or several that share the parameters; left as they are.
        plan: how the training is meant to be run.
        steps: how many.
        baseline: the constant baseline's loss, where the user knows it.
    """
    twin, copies = copy_with_optimizers(model, optimizers)
    for copied in copies:
        fuse_(twin, copied)  # as the trainings of the table took their steps
    reader = FirstStepsReader(twin, batches, loss=loss, steps=steps)
    stepper = PlannedStepper(copies, plan)
    given = islice(cycle(batches), steps * plan.accumulate)
    for step in train_steps(twin, stepper, given, loss=loss, accumulate=plan.accumulate):
        report_progress("step", step.number, steps)
        reader.before_step(step)
        if reader.reader.is_finite:
            step.take()
        if reader.reader.reads_now:
            with preserve_buffers(twin):  # what is read at a stage leaves no trace in the next step
                reader.after_step()
        if not reader.reader.is_finite:
            break
    return reader.first_steps(plan, copies, baseline=baseline)


class FirstStepsReader:
    """Reads the first steps of a copy while someone else trains it."""

    def __init__(
        self, model: nn.Module, batches: Sequence[Batch], *, loss: LossFn, steps: int
    ) -> None:
        at = sorted({*(s for s in STAGES if s < steps), steps})
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.reader = Reader(
            model, batches, loss=loss, at=at, also=lambda: _total_norm(self.trained)
        )

    def before_step(self, step: TrainingStep) -> None:
        """Keep the gradient's norm, and what the stages read."""
        self.reader.before_step(step)

    def after_step(self) -> None:
        """Read a stage."""
        self.reader.after_step()

    def first_steps(
        self,
        plan: TrainingPlan,
        optimizers: Sequence[torch.optim.Optimizer],
        *,
        baseline: float | None = None,
    ) -> FirstSteps:
        """What was seen until now."""
        reader = self.reader
        known = reader.goal.baseline if reader.goal is not None and baseline is None else baseline
        kind = " ".join(type(o).__name__.lower() for o in optimizers)
        groups = [g for o in optimizers for g in o.param_groups]
        return FirstSteps(
            losses=tuple(reader.losses),
            gradient_norms=tuple(reader.asked),
            readings=tuple(reader.result),
            plan=plan,
            baseline=known,
            batch_size=_batch_size(reader.batches[0]) * plan.accumulate,
            num_parameters=sum(p.numel() for p in self.trained),
            is_adaptive=any(name in kind for name in _ADAPTIVE),
            has_momentum=any(g.get("momentum", 0) or "betas" in g for g in groups),
            num_batches=len(reader.batches),
            lowest=lowest_loss(reader.loss, targets_of(reader.batches[0])),
        )


def _total_norm(parameters: Sequence[Tensor]) -> Tensor:
    """Norm of all gradients together; those that are sparse are made dense."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    dense = [g.to_dense() if g.layout is not torch.strided else g for g in gradients]
    return nn.utils.get_total_norm(dense) if dense else torch.zeros((), device="cpu")


def _batch_size(batch: Batch) -> int:
    sizes: Iterator[int] = (len(t) for t in tensors_in(batch[0]) if t.ndim)
    return next(sizes, 1)
