"""A Hugging Face Trainer callback that records into the run store."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bathyscope.core.errors import UsageError
from bathyscope.training.trackers.plain import Logger, log_run

_NAMES = {"grad_norm": "gradient_norm", "learning_rate": "lr"}


def huggingface_callback(
    out: Path | str, name: str, *, settings: Mapping[str, object] | None = None
) -> object:
    """A `transformers.TrainerCallback` that writes what a Trainer logs as a run.

    Training logs become lines of kind `step`, evaluations of kind `epoch` with `eval_` read as
    `test_`; `grad_norm` and `learning_rate` get the names they have in all runs. Only the first
    process writes.

    Args:
        out: folder of the run folders.
        name: the readable part of the run's name.
        settings: what decides the numbers.

    Raises:
        UsageError: transformers is not installed.
    """
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise UsageError(
            "transformers is not installed; install it with: pip install 'bathyscope[hf]'."
        ) from error

    class TrainerRunStore(TrainerCallback):
        """Records into the run store."""

        def __init__(self) -> None:
            self._stack = ExitStack()
            self.logger: Logger | None = None

        def on_train_begin(self, args: object, state: Any, control: object, **_: Any) -> None:
            if state.is_world_process_zero:
                self.logger = self._stack.enter_context(log_run(out, name, settings=settings))

        def on_log(
            self, args: object, state: Any, control: object, logs: Any = None, **_: Any
        ) -> None:
            if self.logger is None or not logs:
                return
            evaluation = any(key.startswith("eval_") for key in logs)
            numbers = {_name_in_runs(k): v for k, v in logs.items() if isinstance(v, int | float)}
            self.logger.log(state.global_step, numbers, kind="epoch" if evaluation else "step")

        def on_train_end(self, args: object, state: object, control: object, **_: object) -> None:
            self._stack.close()

    return TrainerRunStore()


def _name_in_runs(key: str) -> str:
    return _NAMES.get(key, f"test_{key.removeprefix('eval_')}" if key.startswith("eval_") else key)
