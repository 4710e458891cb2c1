"""Learning the features of a network by minibatches, with early stopping."""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

Training = Literal["joint", "blockwise"]
SampleLoss = Callable[[Tensor, Tensor], Float[Tensor, " n"]]
_WEIGHT_DECAY = 1e-4


@dataclass(frozen=True)
class Schedule:
    """How long and how fast features are learned."""

    learning_rate: float
    batch_size: int
    max_epochs: int
    patience: int | None  # epochs without a better validation; None never stops early


@dataclass(frozen=True, eq=False)
class TensorSet:
    """Standardized inputs, targets and weights (of mean one) in float32."""

    x: Float[Tensor, " n d"]
    y: Tensor
    weights: Float[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.x)


def learn_(
    network: nn.Module,
    parameters: Sequence[nn.Parameter],
    *,
    train: TensorSet,
    validation: TensorSet | None,
    loss: SampleLoss,
    schedule: Schedule,
    generator: torch.Generator,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[float]:
    """Train the given parameters, the others standing still; keep the best state in validation.

    Args:
        network: from inputs to outputs, in float32; it is trained in place.
        parameters: those that learn.
        train: samples to learn from.
        validation: samples that decide when to stop; None trains to the last epoch.
        loss: of each sample.
        schedule: learning rate, batches, epochs, patience.
        generator: of the order of the samples.
        progress: wraps the epochs.

    Returns:
        The validation loss (without a validation set, the training loss) after each epoch.
    """
    optimizer = torch.optim.AdamW(
        parameters, lr=schedule.learning_rate, weight_decay=_WEIGHT_DECAY, fused=True
    )
    best, kept = float("inf"), copy.deepcopy(network.state_dict())
    if validation is not None:
        best = mean_loss(network, validation, loss=loss)
    since, history = 0, []
    for _ in progress(range(schedule.max_epochs)):
        history.append(_epoch(network, optimizer, train, loss, schedule.batch_size, generator))
        if validation is None:
            continue
        history[-1] = mean_loss(network, validation, loss=loss)
        if history[-1] < best:
            best, since, kept = history[-1], 0, copy.deepcopy(network.state_dict())
        else:
            since += 1
            if schedule.patience is not None and since >= schedule.patience:
                break
    if validation is not None:
        network.load_state_dict(kept)
    return history


def _epoch(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    train: TensorSet,
    loss: SampleLoss,
    batch_size: int,
    generator: torch.Generator,
) -> float:
    order = torch.randperm(len(train), generator=generator, device="cpu")
    total = 0.0
    for rows in order.split(batch_size):
        optimizer.zero_grad(set_to_none=True)
        value = (loss(network(train.x[rows]), train.y[rows]) * train.weights[rows]).mean()
        value.backward()
        optimizer.step()
        total += value.item() * len(rows)
    return total / len(train)


@torch.no_grad()
def mean_loss(network: nn.Module, samples: TensorSet, *, loss: SampleLoss) -> float:
    """The weighted mean loss."""
    return float((loss(network(samples.x), samples.y) * samples.weights).mean())
