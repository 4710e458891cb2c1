"""What a task is: data, a loss, the constant baseline and the networks that fit it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

Tensors = tuple[Tensor, ...]
Choices = Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """A learning task that any of several network families can be trained on.

    Attributes:
        name: unique among the tasks.
        kind: what is learned, in the field's words; several tasks may share a kind.
        loss_name: the family of the loss, such as cross-entropy.
        baseline: how the constant baseline's loss is computed.
        families: the builder of each network family, from the drawn choices.
        data: training and held-out tensors; computed once per process.
        loss: the scalar to minimize, lower is better.
        constant_loss: the loss of the best constant output on some tensors, given the training
            tensors and the batch size.
        metric: a second figure beside the loss, or None.
        metric_name: the name of that figure.
        add_noise: appends the random tensors that the loss needs (views, noise), or None.
        batch_sizes: the batch sizes to choose from.
        longest: the largest budget in steps; below 2000 where a step is expensive.
        sgd_rate: a sensible learning rate of plain SGD, which depends on the scale of the loss.
    """

    name: str
    kind: str
    loss_name: str
    baseline: str
    families: Mapping[str, Callable[[Choices], nn.Module]]
    data: Callable[[], tuple[Tensors, Tensors]]
    loss: Callable[[nn.Module, Tensors], Tensor]
    constant_loss: Callable[[Tensors, Tensors, int], float]
    metric: Callable[[nn.Module, Tensors], float] | None = None
    metric_name: str | None = None
    add_noise: Callable[[Tensors, Generator], Tensors] | None = None
    batch_sizes: tuple[int, ...] = (16, 32, 64)
    longest: int = 2000
    sgd_rate: float = 0.1


def split(tensors: Tensors, num_held_out: int) -> tuple[Tensors, Tensors]:
    """The first rows to train on, and the last `num_held_out` rows."""
    count = len(tensors[0]) - num_held_out
    return tuple(t[:count] for t in tensors), tuple(t[count:] for t in tensors)


def class_entropy(held_out: Tensor, train: Tensor, num_classes: int) -> float:
    """Cross-entropy of the training frequencies of the classes on held-out labels."""
    counts = torch.bincount(train.flatten(), minlength=num_classes).double()
    log_frequencies = ((counts + 1e-3) / (counts + 1e-3).sum()).log()
    return float(-log_frequencies[held_out.flatten()].mean())


def mean_square(held_out: Tensor, train: Tensor) -> float:
    """Mean squared error of the training mean of each output on held-out targets."""
    return float((held_out.double() - train.double().mean(0)).square().mean())


def accuracy(outputs: Tensor, labels: Tensor) -> float:
    """Fraction of labels that the largest output names; classes lie in the last dimension."""
    return float((outputs.argmax(-1) == labels).double().mean())
