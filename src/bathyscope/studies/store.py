"""The runs of all studies: each task is run once, in a folder named by its configuration."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pandas as pd
import torch

from bathyscope.core.errors import BathyscopeError
from bathyscope.core.files import make_folder
from bathyscope.runs import Manifest, has_result, read_run, run_state
from bathyscope.studies.computation import ROW, Computation
from bathyscope.studies.trial import TrainingTask
from bathyscope.sweep import Backend, Tally, local, sweep

Task = TrainingTask | Computation
"""What a study needs run: it has a configuration, and `run(folder)`."""


def perform(task: Task, folder: Path) -> None:
    """Run a task in its folder; what a worker is given.

    One thread: a sum split over threads would round otherwise on another machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        task.run(folder)
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Store:
    """The run folders of studies.

    Attributes:
        folder: where they lie.
        workers: processes that run tasks; with one, they run in this process.
        backend: where they run, in place of processes of this machine.
        on_change: called whenever a task ends.
    """

    folder: Path
    workers: int = 1
    backend: Backend | None = None
    on_change: Callable[[Tally], None] = lambda summary: None

    def perform(self, tasks: Sequence[Task]) -> None:
        """Run every task that has no result yet; what was interrupted continues.

        Raises:
            UsageError: the folder cannot be written.
            BathyscopeError: a task failed.
            KeyboardInterrupt: it was asked to stop; what is done stays done.
        """
        make_folder(self.folder)
        here = local(self.workers) if self.workers > 1 else Backend(_here, window=1)
        sweep(
            perform,
            tasks,
            out=self.folder,
            backend=self.backend or here,
            retry_failed=True,
            on_change=self.on_change,
        )
        unfinished = [task for task in tasks if not has_result(self.location(task))]
        if not unfinished:
            return
        first = self.location(unfinished[0])
        if run_state(first) != "failed":
            raise BathyscopeError(
                f"{len(unfinished)} of {len(tasks)} runs are at work elsewhere or were stopped "
                f"(the first: {first}); run the study again to continue."
            )
        raise BathyscopeError(
            f"{len(unfinished)} of {len(tasks)} runs failed; the first: "
            f"{read_run(first)[1].ending} ({first / 'failure.txt'})."
        )

    def location(self, task: Task) -> Path:
        """The folder of a task's run."""
        return self.folder / task.folder_name()

    def manifest(self, task: Task) -> Manifest:
        """How, when and where a finished task was run."""
        return read_run(self.location(task))[1]

    def frame(
        self, tasks: Iterable[Task], *, kind: str = ROW, keys: Sequence[str] = ()
    ) -> pd.DataFrame:
        """The records of one kind of all tasks below one another.

        Args:
            tasks: finished ones.
            kind: `row`, `step`, `epoch`, or what a watcher wrote.
            keys: fields of the configuration to add as columns.
        """
        rows: list[dict[str, object]] = []
        for task in tasks:
            named = {key: getattr(task, key) for key in keys}
            records = read_run(self.location(task))[2]
            rows += [
                named | {k: v for k, v in record.items() if k != "kind"}
                for record in records
                if record.get("kind") == kind
            ]
        return pd.DataFrame(rows)

    def endings(self, tasks: Iterable[Task], *, keys: Sequence[str] = ()) -> pd.DataFrame:
        """One row per task: how it ended, its last numbers, and its seconds."""
        rows = []
        for task in tasks:
            manifest = self.manifest(task)
            last = {
                k: float(v) if v in ("nan", "inf", "-inf") else v
                for k, v in manifest.result.items()
            }
            rows.append(
                last
                | {key: getattr(task, key) for key in keys}
                | {"status": manifest.status, "seconds": manifest.seconds}
            )
        return pd.DataFrame(rows)


R = TypeVar("R")


class _Here(Executor):
    """Runs what is submitted at once, in this process."""

    def submit(self, fn: Callable[..., R], /, *args: object, **kwargs: object) -> Future[R]:
        future: Future[R] = Future()
        future.set_result(fn(*args, **kwargs))
        _, _, folder = args
        assert isinstance(folder, Path)
        if run_state(folder) == "stopped":  # a training run takes Ctrl-C for itself, and saves
            raise KeyboardInterrupt
        return future


def _here() -> nullcontext[Executor]:
    return nullcontext(_Here())
