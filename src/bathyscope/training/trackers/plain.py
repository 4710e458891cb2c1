"""The run store for a loop of one's own, in three lines."""

import math
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import ConfigDict
from torch import Tensor

from bathyscope.core.files import write_atomic
from bathyscope.core.json_values import JsonObject
from bathyscope.runs import Configuration, Run, open_run


class Settings(Configuration):
    """Whatever settings a loop of one's own has, under a name."""

    model_config = ConfigDict(extra="allow")
    name: str

    def prefix(self) -> str:
        """The name."""
        return self.name


class Logger:
    """Writes into a run what a loop shows it; made by `log_run`."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.folder = run.folder
        self._last: JsonObject = {}
        self._diverged_at: int | None = None

    def log(
        self, step: int, numbers: Mapping[str, int | float | Tensor], *, kind: str = "step"
    ) -> None:
        """One line of metrics, numbers by name; a tensor must hold one number.

        A `loss` that is NaN or infinite is remembered: the run then ends as diverged at that step.
        """
        plain = {k: v.item() if isinstance(v, Tensor) else v for k, v in numbers.items()}
        self.run.log({"kind": kind, "step": step} | plain)
        self._last |= {"step": step} | plain
        if self._diverged_at is None and not math.isfinite(plain.get("loss", 0.0)):
            self._diverged_at = step

    def close(self) -> None:
        """Record the end: finished, or diverged where the loss stopped being finite."""
        if self._diverged_at is None:
            self.run.end("finished", result=self._last)
        else:
            self.run.end("diverged", f"diverged at step {self._diverged_at}", result=self._last)


@contextmanager
def log_run(
    out: Path | str, name: str, *, settings: Mapping[str, object] | None = None
) -> Iterator[Logger]:
    """A run in the store for a loop of one's own.

    The run is named by `name` and a hash of the settings, begins again at each call, and stands in
    `runs.table` and `bathyscope show` beside all others. An exception ends it as failed, with the
    traceback, and continues to the caller.

    Args:
        out: folder of the run folders.
        name: the readable part of the run's name.
        settings: what decides the numbers; anything JSON can hold.

    Examples:
        >>> import tempfile
        >>> out = tempfile.mkdtemp()
        >>> with log_run(out, "mine", settings={"lr": 0.1}) as logger:
        ...     for step in range(3):
        ...         logger.log(step, {"loss": 1 / (step + 1)})
        >>> from bathyscope import runs
        >>> runs.table(out)[["lr", "status", "loss"]].values.tolist()
        [[0.1, 'finished', 0.3333333333333333]]
    """
    configuration = Settings.parse({**(settings or {}), "name": name})
    folder = Path(out) / configuration.folder_name()
    with open_run(folder, configuration, restart=True) as run:
        logger = Logger(run)
        try:
            yield logger
        except BaseException as error:
            write_atomic(folder / "failure.txt", traceback.format_exc().encode())
            run.end("failed", f"failed: {type(error).__name__}: {error}", result=logger._last)
            raise
        logger.close()
