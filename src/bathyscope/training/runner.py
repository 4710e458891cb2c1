"""`fit` a model in memory; `train` a run in its folder, from where it stands to its end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from bathyscope.core.arguments import check_choice, check_function, check_kind, check_path
from bathyscope.core.batch import LossFn
from bathyscope.core.errors import BathyscopeError, UsageError, shorten
from bathyscope.core.files import DiskFull
from bathyscope.core.json_values import JsonObject
from bathyscope.runs import Status, has_result, open_run, read_run, run_state
from bathyscope.training.batches import Data, check_examples, derived_seed
from bathyscope.training.callbacks import Callback
from bathyscope.training.config import TrainingConfig
from bathyscope.training.distributed import Group, launched_group
from bathyscope.training.loop import Loop
from bathyscope.training.saving import Saver, Saving
from bathyscope.training.signals import StopRequest, stop_on_signals


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
    result: JsonObject
    history: list[JsonObject] = field(repr=False)

    def curve(self, name: str, *, kind: str = "step") -> list[float]:
        """The values of one number over the steps or epochs of the run."""
        return [r[name] for r in self.history if r.get("kind") == kind and name in r]


def fit(
    model: nn.Module,
    train: Data,
    *,
    config: TrainingConfig,
    test: Data | None = None,
    loss: LossFn | None = None,
    callbacks: Sequence[Callback] = (),
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

    Examples:
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> line = nn.Linear(1, 1)
        >>> config = TrainingConfig(loss="mse", epochs=30, batch_size=8)
        >>> fit(line, (x, 2 * x), config=config).status
        'finished'
        >>> round(line.weight.item(), 1)
        2.0
    """
    check_kind("model", model, nn.Module)
    _check(config, callbacks, loss)
    history: list[JsonObject] = []
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
    _start(loop)
    loop.advance()
    return _end(loop, history=history)


def train(
    build: Callable[[], nn.Module],
    data: Data,
    *,
    config: TrainingConfig,
    folder: Path | str,
    test: Data | None = None,
    loss: LossFn | None = None,
    callbacks: Sequence[Callback] = (),
    begun: Literal["resume", "restart", "refuse"] = "resume",
    saving: Saving = Saving(),  # noqa: B008  frozen
) -> Outcome:
    """Train a run in its folder, from where it stands to its end.

    A run that has a result already is not run again: its outcome is returned. One that was begun goes
    on from its last checkpoint, in the middle of an epoch too, and ends bit for bit where it would
    have ended uninterrupted (on a CPU, with the same number of threads). Ctrl-C and SIGTERM end it
    as `stopped`, saved. Under torchrun, every process calls this; the first one writes, and the
    folder must be visible to all.

    Args:
        build: makes the model; called under the run's seed.
        data: the training set. The model is moved to its device.
        config: what decides the numbers; written to the folder.
        folder: the run's folder.
        test: evaluated at the end of each epoch.
        loss: a mean over samples, in place of the one the configuration names.
        callbacks: called at each step and epoch, in the first process only.
        begun: what to do with a run that was begun before.
        saving: how often to save.

    Raises:
        Locked: another process is writing this run.
        DiskFull: the run stopped; its last checkpoint is intact.
        UsageError: the folder holds a run of another configuration, the checkpoint another
            architecture, or the run was begun and `begun` is `refuse`.
    """
    folder = check_path("folder", folder)
    check_choice("begun", begun, ("resume", "restart", "refuse"))
    check_function("build", build)
    _check(config, callbacks, loss)
    check_examples(data, config, what="training")
    if begun != "restart" and has_result(folder):
        return outcome_of(folder)
    if begun == "refuse" and run_state(folder) not in ("absent", "running"):
        raise UsageError(
            f"The run {folder} was begun before and has not reached its end; resume it "
            "(--resume) or start it again (--restart)."
        )
    with launched_group() as group, stop_on_signals() as request:
        torch.manual_seed(derived_seed(config.seed, "weights"))
        model = built(build).to(data[0].device)
        first = group.rank == 0
        loop = Loop(
            model,
            data,
            config,
            test=test,
            loss=loss,
            callbacks=tuple(callbacks) if first else (),
            group=group,
        )
        _seed(config, group)
        if first:
            with open_run(folder, config, seeds=(config.seed,), restart=begun == "restart") as run:
                _advance(loop, Saver(loop, folder, saving, run=run), request)
        else:
            _advance(loop, Saver(loop, folder, saving), request)
        group.wait()
    return outcome_of(folder)


def built(build: Callable[[], nn.Module]) -> nn.Module:
    """The network that a user's function makes.

    Raises:
        UsageError: it raises, or makes something else.
    """
    try:
        model = build()
    except BathyscopeError:
        raise
    except Exception as error:  # a user's own code may raise anything
        reason = " ".join(str(error).split())[:200]
        raise UsageError(
            f"The model could not be built: {type(error).__name__}: {reason}."
        ) from error
    check_kind("what build() makes", model, nn.Module)
    return model


def _check(config: object, callbacks: object, loss: object) -> None:
    check_kind("config", config, TrainingConfig)
    if not isinstance(callbacks, (list, tuple)):
        raise UsageError(f"callbacks is a list of Callback, but {shorten(callbacks)} was given.")
    for callback in callbacks:
        check_kind("A callback", callback, Callback)
    if loss is not None:
        check_function("loss", loss)


def outcome_of(folder: Path | str) -> Outcome:
    """The outcome of a run, as its folder shows it.

    Raises:
        UsageError: the folder is not a run.
    """
    _, manifest, history = read_run(folder)
    return Outcome(
        status=manifest.status, ending=manifest.ending, result=manifest.result, history=history
    )


def _advance(loop: Loop, saver: Saver, request: StopRequest) -> None:
    """Take the loop from its last checkpoint to its end, and record how it ended."""
    saver.restore()
    _start(loop)

    def after_step() -> bool:
        wanted = loop.group.largest(2 if request.name else int(saver.due()))
        if wanted:
            saver.save()
        return wanted == 2

    try:
        loop.advance(after_step=after_step)
    except DiskFull:
        saver.give_up("stopped: the disk is full")
        raise
    outcome = _end(loop, stopped=request.name)
    saver.finish(outcome.status, outcome.ending)


def _seed(config: TrainingConfig, group: Group | None = None) -> None:
    """Dropout and the like draw from torch's own generator, otherwise in every process."""
    rank = group.rank if group else 0
    torch.manual_seed(derived_seed(config.seed, "steps", *([rank] if rank else [])))


def _start(loop: Loop) -> None:
    for callback in loop.callbacks:
        callback.on_start(loop)


def _end(
    loop: Loop, *, history: list[JsonObject] | None = None, stopped: str | None = None
) -> Outcome:
    status: Status = "finished"
    ending = f"finished: {loop.reason}" if loop.reason else "finished"
    if loop.divergence is not None:
        status, ending = "diverged", str(loop.divergence)
    elif not loop.is_over:
        status, ending = "stopped", f"stopped at step {loop.step} by {stopped}"
    for callback in loop.callbacks:
        callback.on_end(loop, ending)
    return Outcome(status=status, ending=ending, result=loop.result, history=history or [])
