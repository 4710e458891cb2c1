"""A small network trained on digits for some steps, with its state measured on the way."""

import functools
import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn

from bathyscope import data, measure
from bathyscope.claims.reading import numbers_of
from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.json_values import JsonMapping
from bathyscope.training import Callback, Examples, LoopView, Record, TrainingConfig, fit

NUM_TRAIN, NUM_TEST, BATCH_SIZE, PROBE_SIZE = 256, 354, 32, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A network at one step.

    Attributes:
        step: steps taken before.
        singular_blocks: fraction of the blocks whose output, as features × samples, has an infinite
            condition number, or none because numbers are non-finite.
        condition: median condition number over the blocks.
        gradient_growth: largest ‖∂E/∂x‖ at a block's input over that at the network's end.
    """

    step: int
    singular_blocks: float
    condition: float
    gradient_growth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRun:
    """A short training.

    Attributes:
        train_accuracy: mean over the last epoch; chance where the run diverged.
        test_accuracy: after the last step; chance where the run diverged.
        diverged: a loss or a gradient was non-finite.
        states: at the measured steps, the last of them at the end.
    """

    train_accuracy: float
    test_accuracy: float
    diverged: bool
    states: tuple[State, ...]


@functools.lru_cache(maxsize=1)
def digits() -> tuple[Examples, Examples]:
    """Training and test images of digits, normalized."""
    result = data.load("digits", normalize=True, num_train=NUM_TRAIN, num_test=NUM_TEST)
    train, test = result.in_memory()
    return (train, result.train_labels), (test, result.test_labels)


def short_training(
    model: nn.Module,
    *,
    lr: float,
    epochs: int,
    seed: int,
    at: tuple[int, ...] = (),
    callbacks: tuple[Callback, ...] = (),
) -> ShortRun:
    """Train a network of one input channel on digits, and measure it at steps `at` and at the end.

    Momentum 0.9, a constant rate, batches of 32 of 256 samples, without weight decay.
    """
    train, test = digits()
    watch = _Watch((train[0][:PROBE_SIZE], train[1][:PROBE_SIZE]), at=frozenset(at))
    outcome = fit(
        model,
        train,
        config=TrainingConfig(
            seed=seed,
            epochs=epochs,
            batch_size=BATCH_SIZE,
            lr=lr,
            weight_decay=0.0,
            schedule="constant",
            evaluate_every=epochs,
        ),
        test=test,
        callbacks=(watch, *callbacks),
    )
    accuracies: JsonMapping = outcome.result
    return ShortRun(
        train_accuracy=float(accuracies.get("train_accuracy", 0.1)),
        test_accuracy=float(accuracies.get("test_accuracy", 0.1)),
        diverged=outcome.status == "diverged",
        states=tuple(watch.states),
    )


class _Watch(Callback):
    def __init__(self, probe: Examples, *, at: frozenset[int]) -> None:
        self.probe, self.at = probe, at
        self.states: list[State] = []
        self.blocks: Blocks | None = None

    def on_start(self, loop: LoopView) -> None:
        self.blocks = blocks_of(loop.model, self.probe[0])
        if 0 in self.at:
            self._add_state(loop, step=0)

    def on_step(self, loop: LoopView, record: Record) -> None:
        if loop.step in self.at:
            self._add_state(loop, step=loop.step)

    def on_end(self, loop: LoopView, ending: str) -> None:
        if not self.states or self.states[-1].step < loop.step:
            self._add_state(loop, step=loop.step)

    def _add_state(self, loop: LoopView, *, step: int) -> None:
        self.states.append(state_of(loop.model, self.probe, step=step, blocks=self.blocks))


def state_of(
    model: nn.Module, probe: Examples, *, step: int = 0, blocks: Blocks | None = None
) -> State:
    """Conditioning of the representations and growth of the gradient, on some samples."""
    blocks = blocks or blocks_of(model, probe[0])
    outputs = measure.representations(model, probe, loss=F.cross_entropy, blocks=blocks)
    gradients = measure.gradients(model, probe, loss=F.cross_entropy, blocks=blocks)
    conditions = [
        math.inf if math.isnan(value) else value
        for value in numbers_of(outputs, "condition_samples")
    ]
    return State(
        step=step,
        singular_blocks=sum(math.isinf(value) for value in conditions) / len(conditions),
        condition=sorted(conditions)[len(conditions) // 2],
        gradient_growth=max(numbers_of(gradients, "norm_in"))
        / numbers_of(gradients, "norm_out")[-1],
    )
