"""The look-ahead: a copy takes steps of training and is looked at after some of them."""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.preserve import preserve_buffers
from bathyscope.core.progress import report_progress
from bathyscope.core.stepping import TrainingStep, train_steps


@dataclass(frozen=True, slots=True)
class Stage:
    """A copy after some steps of training.

    Attributes:
        step: how many it has taken; 0 is the model as it was given.
        model: the copy itself, which continues after this stage: look at it now.
        optimizer: the copy's.
        losses: before each step taken.
    """

    step: int
    model: nn.Module
    optimizer: torch.optim.Optimizer
    losses: tuple[float, ...]


@runtime_checkable
class StepReader(Protocol):
    """Looks at every step of a copy; what it runs on the copy leaves no trace in the next step."""

    def before_step(self, step: TrainingStep) -> None:
        """The gradients are there, the step is not taken yet."""

    def after_step(self) -> None:
        """The step is taken."""


def look_ahead(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
    *,
    loss: LossFn,
    at: Collection[int],
    reader: StepReader | None = None,
) -> Iterator[Stage]:
    """Train a copy, one step per batch, and stop at the stages that are asked for.

    The steps are taken only as the stages are asked for. A non-finite loss ends it, with a
    stage at the step that showed it.

    Args:
        model: the copy (`copy_training`); it is trained.
        optimizer: the copy's.
        batches: as many as there are steps to take, or more.
        loss: a scalar from output and targets.
        at: the steps after which to stop; 0 is before the first.
        reader: called at every step.

    Examples:
        >>> import torch.nn.functional as F
        >>> from bathyscope.core.stepping import copy_training
        >>> twin, stepper = copy_training(nn.Linear(4, 3), None)
        >>> batch = torch.randn(8, 4), torch.randint(3, (8,))
        >>> [s.step for s in look_ahead(twin, stepper, [batch] * 9, loss=F.cross_entropy, at=(0, 1, 8))]
        [0, 1, 8]
    """
    losses: list[float] = []
    if 0 in at:
        yield Stage(0, model, optimizer, ())
    most = max(at, default=0)
    for step in train_steps(model, optimizer, islice(batches, most), loss=loss):
        report_progress("step", step.number, most)
        losses.append(step.loss)
        if reader is not None:
            reader.before_step(step)
        step.take()
        if reader is not None:
            with preserve_buffers(model):
                reader.after_step()
        if step.number in at or not math.isfinite(step.loss):
            yield Stage(step.number, model, optimizer, tuple(losses))


def stage_label(step: int) -> str:
    """A stage in words.

    Examples:
        >>> stage_label(0), stage_label(1), stage_label(8)
        ('at the start', 'after 1 step', 'after 8 steps')
    """
    return "at the start" if step == 0 else f"after {step} step{'s' * (step > 1)}"
