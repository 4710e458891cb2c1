"""A training of the table in the form in which a user hands it to `bathyscope.forecast`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.losses import token_cross_entropy
from tools.real_trainings.build import _batches, _factor, build_training
from tools.real_trainings.case import Case
from tools.real_trainings.tasks import generated, images
from tools.real_trainings.tasks.registry import TASKS
from tools.real_trainings.tasks.task import Tensors

FRESH = 1000
"""Added to the seed of the order of the batches: not one that a recorded training saw."""


@dataclass(frozen=True)
class Given:
    """What a user hands in."""

    model: nn.Module
    batches: Iterator[Batch]
    loss: LossFn
    optimizer: Optimizer
    scheduler: Callable[[int], float]
    clip: float | None
    budget: int


def as_given(case: Case, seed: int = 0) -> Given:
    """The training of a case, its batches in an order that no recorded training saw."""
    training = build_training(case, seed)
    form = _FORMS.get(case.task, _Form(lambda b: (b[0], b[1]), F.cross_entropy))
    task = TASKS[case.task]
    size = case.setting.batch_size
    raw = _batches(task, task.data()[0], size, crc32(f"{case.id}/{seed + FRESH}".encode()))
    # the scheduler has lowered the rates already: a user's function begins at the largest
    for group in training.optimizer.param_groups:
        group["lr"] = group.pop("initial_lr")
    return Given(
        model=form.wrap(training.model),
        batches=(form.batch(b) for b in raw),
        loss=form.loss,
        optimizer=training.optimizer,
        scheduler=partial(_factor, case.setting.schedule, case.budget),
        clip=case.setting.clip,
        budget=case.budget,
    )


class _Both(nn.Module):
    """One network on two views."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner(first), self.inner(second)


@dataclass(frozen=True)
class _Form:
    batch: Callable[[Tensors], Batch]
    loss: LossFn
    wrap: Callable[[nn.Module], nn.Module] = lambda model: model


class _Fixed(nn.Module):
    """A model that returns what it is given, for a task's own loss."""

    def __init__(self, output: object) -> None:
        super().__init__()
        self.output = output

    def forward(self, *_: object) -> object:
        return self.output


def _of_task(
    loss: Callable[[nn.Module, Tensors], Tensor], output: object, batch: Tensors
) -> Tensor:
    return loss(_Fixed(output), batch)


def _views_loss(output: tuple[Tensor, Tensor], _: object) -> Tensor:
    first, second = (F.normalize(view, dim=1) for view in output)
    logits = first @ second.T / images.TEMPERATURE
    return F.cross_entropy(logits, torch.arange(len(logits)))


_NEXT = _Form(lambda b: (b[0][:, :-1], b[0][:, 1:].contiguous()), token_cross_entropy)
_NUMBERS = _Form(lambda b: (b[0], b[1]), F.mse_loss)

_FORMS = {
    "characters-docs": _NEXT,
    "characters-grammar": _NEXT,
    "tokens-induction": _NEXT,
    "tagging": _Form(lambda b: (b[0], b[1]), token_cross_entropy),
    "graph-communities": _Form(lambda b: ((b[0], b[1]), b[2]), token_cross_entropy),
    "adding": _NUMBERS,
    "table-friedman": _NUMBERS,
    "table-diabetes": _NUMBERS,
    "autoencode-mnist": _Form(lambda b: (b[0], b[0].flatten(1)), F.mse_loss),
    "vae-fashion": _Form(lambda b: ((b[0], b[1]), b), partial(_of_task, images._negative_elbo)),
    "denoise-fashion": _Form(
        lambda b: (b[0] + images.NOISE * b[1], b[0]), lambda out, y: F.mse_loss(out.view_as(y), y)
    ),
    "contrast-mnist": _Form(lambda b: (b, None), _views_loss, _Both),
    "multilabel-shapes": _Form(lambda b: (b[0], b[1]), F.binary_cross_entropy_with_logits),
    "bandit": _Form(lambda b: (b[0], b), partial(_of_task, generated._policy_gradient)),
}
