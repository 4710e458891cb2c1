"""Build a training of the table, so that it can be run or its first steps be run again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from zlib import crc32

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from tools.real_trainings.case import Case
from tools.real_trainings.networks.parts import initialize_
from tools.real_trainings.optimizers import make_optimizer
from tools.real_trainings.schedules import SCHEDULES
from tools.real_trainings.tasks.registry import TASKS
from tools.real_trainings.tasks.task import Task, Tensors

EVALUATION_BATCH = 64
"""Held-out data is evaluated in batches of this size; InfoNCE depends on it, the others do not."""


@dataclass(frozen=True)
class Evaluation:
    """Mean loss and metric on held-out data."""

    loss: float
    metric: float | None


@dataclass(frozen=True)
class Training:
    """Everything that a training loop needs.

    Attributes:
        model: freshly initialized.
        optimizer: at the schedule's rate for step 0.
        scheduler: to be stepped after every step of the optimizer.
        batches: endless; one epoch after the other, each shuffled.
        loss: the scalar to minimize, from the model and a batch.
        evaluate: loss and metric on held-out data, in evaluation mode.
        clip: the largest allowed gradient norm, or None.
        constant_loss: of the best constant output on the training data, at this batch size.
        constant_evaluation: of the best constant output on held-out data.
    """

    model: nn.Module
    optimizer: Optimizer
    scheduler: LambdaLR
    batches: Iterator[Tensors]
    loss: Callable[[nn.Module, Tensors], Tensor]
    evaluate: Callable[[nn.Module], Evaluation]
    clip: float | None
    constant_loss: float
    constant_evaluation: float


def build_training(case: Case, seed: int = 0) -> Training:
    """The training of a case; the same for the same case and seed.

    The seed decides the initialization and the order of the batches; the data of a task is fixed.
    """
    task = TASKS[case.task]
    train, held_out = task.data()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(crc32(f"{case.network_id}/{seed}".encode()))
        model = task.families[case.family](case.network)
        initialize_(model, case.initialization)
    optimizer = make_optimizer(model.parameters(), case.setting)
    factor = partial(_factor, case.setting.schedule, case.budget)
    size = case.setting.batch_size
    return Training(
        model=model,
        optimizer=optimizer,
        scheduler=LambdaLR(optimizer, factor),
        batches=_batches(task, train, size, crc32(f"{case.id}/{seed}".encode())),
        loss=task.loss,
        evaluate=partial(_evaluate, task, held_out),
        clip=case.setting.clip,
        constant_loss=task.constant_loss(train, train, size),
        constant_evaluation=task.constant_loss(held_out, train, EVALUATION_BATCH),
    )


def take_step(training: Training, batch: Tensors) -> tuple[float, float]:
    """One step of the training; its loss and its gradient norm before clipping."""
    loss = training.loss(training.model, batch)
    training.optimizer.zero_grad()
    loss.backward()
    limit = float("inf") if training.clip is None else training.clip
    norm = nn.utils.get_total_norm(
        [p.grad for p in training.model.parameters() if p.grad is not None]
    )
    if training.clip is not None:
        nn.utils.clip_grads_with_norm_(training.model.parameters(), limit, norm)
    training.optimizer.step()
    training.scheduler.step()
    return float(loss.detach()), float(norm)


def _factor(schedule: str, budget: int, step: int) -> float:
    return SCHEDULES[schedule](step, budget)


def _batches(task: Task, train: Tensors, size: int, seed: int) -> Iterator[Tensors]:
    generator = Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(train[0]), generator=generator)
        for first in range(0, len(order) - size + 1, size):
            chosen = order[first : first + size]
            batch = tuple(t[chosen] for t in train)
            yield batch if task.add_noise is None else task.add_noise(batch, generator)


@torch.no_grad()
def _evaluate(task: Task, held_out: Tensors, model: nn.Module) -> Evaluation:
    """Every evaluation sees the same data and the same noise."""
    generator = Generator().manual_seed(0)
    was_training = model.training
    model.eval()
    losses, metrics, sizes = [], [], []
    for first in range(0, len(held_out[0]), EVALUATION_BATCH):
        batch = tuple(t[first : first + EVALUATION_BATCH] for t in held_out)
        sizes.append(len(batch[0]))
        if task.add_noise is not None:
            batch = task.add_noise(batch, generator)
        losses.append(float(task.loss(model, batch)))
        if task.metric is not None:
            metrics.append(task.metric(model, batch))
    model.train(was_training)

    def mean(values: list[float]) -> float:
        return sum(v * n for v, n in zip(values, sizes, strict=True)) / sum(sizes)

    return Evaluation(mean(losses), mean(metrics) if metrics else None)
