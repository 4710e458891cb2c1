"""`fit` a model in memory; `train` a run in its folder, from where it stands to its end."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bathyscope.core.batch import LossFn
from bathyscope.runs import Status, open_run, read_metrics
from bathyscope.training.batches import Examples, derived_seed
from bathyscope.training.callbacks import Callback
from bathyscope.training.config import TrainingConfig
from bathyscope.training.loop import Loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended.

    Attributes:
        status: `finished`, `diverged` or `stopped`.
        ending: the same in words.
        result: the last numbers, by name.
        history: the lines of the metrics.
    """

    status: Status
    ending: str
    result: dict[str, Any]
    history: list[dict[str, Any]] = field(repr=False)

    def curve(self, name: str, *, kind: str = "step") -> list[float]:
        """The values of one number over the steps or epochs of the run."""
        return [r[name] for r in self.history if r.get("kind") == kind and name in r]


def fit(
    model: nn.Module,
    train: Examples,
    *,
    config: TrainingConfig,
    test: Examples | None = None,
    loss: LossFn | None = None,
    callbacks: Iterable[Callback] = (),
) -> Outcome:
    """Train a model in place, in memory, without a run folder.

    Args:
        model: any module that maps a batch of inputs to outputs.
        train: inputs and targets.
        config: what decides the numbers.
        test: evaluated at the end of each epoch.
        loss: a mean over samples, in place of the one the configuration names.
        callbacks: called at each step and epoch.

    Returns:
        How it ended, with the history of all its numbers. A run whose loss or gradient becomes NaN or
        infinite is a result, `diverged`, and raises nothing.

    Example:
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> line = nn.Linear(1, 1)
        >>> config = TrainingConfig(loss="mse", epochs=30, batch_size=8)
        >>> fit(line, (x, 2 * x), config=config).status
        'finished'
        >>> round(line.weight.item(), 1)
        2.0
    """
    history: list[dict[str, Any]] = []
    loop = Loop(
        model,
        train,
        config,
        test=test,
        loss=loss,
        callbacks=tuple(callbacks),
        write=lambda record: history.append(dict(record)),
    )
    _seed(config)
    for callback in loop.callbacks:
        callback.on_start(loop)
    loop.advance()
    return _ended(loop, history)


def train(
    build: Callable[[], nn.Module],
    data: Examples,
    *,
    config: TrainingConfig,
    folder: Path,
    test: Examples | None = None,
    loss: LossFn | None = None,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Train a run in its folder.

    Args:
        build: makes the model; called under the run's seed.
        data: the training set.
        config: what decides the numbers; written to the folder.
        folder: the run's folder.
        test: evaluated at the end of each epoch.
        loss: a mean over samples, in place of the one the configuration names.
        callbacks: called at each step and epoch.

    Raises:
        RunLocked: another process is writing this run.
        UsageError: the folder holds a run of another configuration.
    """
    with open_run(folder, config, seeds=(config.seed,)) as run:
        torch.manual_seed(derived_seed(config.seed, "weights"))
        model = build().to(data[0].device)
        loop = Loop(
            model,
            data,
            config,
            test=test,
            loss=loss,
            callbacks=tuple(callbacks),
            write=run.metrics.append,
        )
        _seed(config)
        for callback in loop.callbacks:
            callback.on_start(loop)
        loop.advance()
        outcome = _ended(loop, [])
        run.end(outcome.status, outcome.ending, result=outcome.result)
    outcome.history.extend(read_metrics(run.metrics.path))
    return outcome


def _seed(config: TrainingConfig) -> None:
    """Dropout and the like draw from torch's own generator."""
    torch.manual_seed(derived_seed(config.seed, "steps"))


def _ended(loop: Loop, history: list[dict[str, Any]]) -> Outcome:
    if loop.divergence is not None:
        status: Status = "diverged"
        ending = str(loop.divergence)
    else:
        status = "finished"
        ending = f"finished: {loop.reason}" if loop.reason else "finished"
    for callback in loop.callbacks:
        callback.on_end(loop, ending)
    return Outcome(status=status, ending=ending, result=loop.result, history=history)
