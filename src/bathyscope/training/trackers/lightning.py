"""A Lightning callback that records into the run store."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonMapping
from bathyscope.training.trackers.plain import Logger, log_run


def lightning_callback(
    out: Path | str, name: str, *, settings: JsonMapping | None = None
) -> object:
    """A `lightning.Callback` that writes what a module logs as a run: `Trainer(callbacks=[…])`.

    Every training batch is a line of kind `step`, every validation one of kind `epoch`; only the
    first process writes.

    Args:
        out: folder of the run folders.
        name: the readable part of the run's name.
        settings: what decides the numbers.

    Raises:
        UsageError: lightning is not installed.
    """
    try:
        from lightning.pytorch import Callback, LightningModule, Trainer
    except ImportError as error:
        raise UsageError(
            "lightning is not installed; install it with: pip install 'bathyscope[lightning]'."
        ) from error

    class LightningRunStore(Callback):
        """Records into the run store."""

        def __init__(self) -> None:
            self._stack = ExitStack()
            self.logger: Logger | None = None

        def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
            if trainer.is_global_zero:
                self.logger = self._stack.enter_context(log_run(out, name, settings=settings))

        def on_train_batch_end(
            self,
            trainer: Trainer,
            pl_module: LightningModule,
            outputs: Any,
            batch: Any,
            batch_idx: int,
        ) -> None:
            numbers = dict(trainer.logged_metrics)
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            if loss is not None:
                numbers["loss"] = loss.detach()
            if self.logger is not None:
                self.logger.log(trainer.global_step, numbers | {"epoch": trainer.current_epoch})

        def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
            if self.logger is not None and not trainer.sanity_checking:
                numbers = trainer.callback_metrics | {"epoch": trainer.current_epoch}
                self.logger.log(trainer.global_step, numbers, kind="epoch")

        def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
            self._stack.close()

        def on_exception(
            self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
        ) -> None:
            self._stack.__exit__(type(exception), exception, exception.__traceback__)

    return LightningRunStore()
