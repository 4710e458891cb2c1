"""A function over many configurations, each in its own run folder, until every one has a result."""

import json
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bathyscope.core.errors import UsageError
from bathyscope.core.files import Locked, hold_lock, make_folder, read_json, write_atomic
from bathyscope.runs import ENDED, Configuration, RunState, has_result, record_failure, run_state
from bathyscope.sweep.backends import Backend, interruptibly
from bathyscope.sweep.draining import Break, drain

Work = Callable[[Any, Path], object]
"""Takes a configuration and the run's folder, and leaves the result there. It must be picklable."""

PLAN = "sweep.json"

# Runs seed torch's one generator, so a process (a Dask worker with several threads) takes one a time.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a sweep."""

    configuration: Configuration
    folder: Path


@dataclass
class Tally:
    """How the runs of a sweep stand; `skipped` had a result before.

    A run that failed before and is not tried again counts as failed: it has no result.
    """

    total: int = 0
    skipped: int = 0
    ended: Counter[RunState] = field(default_factory=Counter)

    @property
    def done(self) -> int:
        """Runs that need nothing more."""
        return self.skipped + sum(self.ended.values())


def sweep(
    work: Work,
    configurations: Iterable[Configuration],
    *,
    out: Path,
    backend: Backend,
    retry_failed: bool = False,
    on_change: Callable[[Tally], None] = lambda summary: None,
) -> Tally:
    """Run every configuration that has no result yet.

    A run that raises is recorded as failed, with its traceback, and the sweep continues. A worker that
    dies takes its pool with it: the pool is opened again and the runs it was at are tried one by one,
    so that the one at fault is found and the others lose nothing but time.

    Args:
        work: what a run is; called in a worker with the configuration and the run's folder.
        configurations: those with equal values are run once.
        out: folder of the run folders.
        backend: where to run.
        retry_failed: run again what failed before.
        on_change: called whenever a run ends.

    Returns:
        How many ended how.

    Raises:
        UsageError: there is no configuration, or the folder cannot be written.
    """
    tasks = {c.folder_name(): Task(c, out / c.folder_name()) for c in configurations}
    if not tasks:
        raise UsageError("The grid is empty: there is nothing to run.")
    make_folder(out)
    _write_plan(out, tasks)
    result = {name: run_state(task.folder) for name, task in tasks.items()}
    idle = ENDED if retry_failed else (*ENDED, "failed")
    left = [task for name, task in tasks.items() if result[name] not in idle]
    summary = Tally(total=len(tasks), skipped=sum(how in ENDED for how in result.values()))
    if failed := len(tasks) - len(left) - summary.skipped:
        summary.ended["failed"] = failed
    on_change(summary)
    _Sweep(work, left, backend, summary, on_change).run()
    return summary


@dataclass
class _Sweep:
    work: Work
    tasks: Sequence[Task]
    backend: Backend
    summary: Tally
    on_change: Callable[[Tally], None]

    def run(self) -> None:
        """All tasks; after a break the suspects one at a time, then the rest as before."""
        rest = deque(range(len(self.tasks)))
        while rest:
            for suspect in self._drain(rest, window=self.backend.window).flying:
                task = self.tasks[suspect]
                if self._had_ended(task):
                    continue
                alone = self._drain(deque([suspect]), window=1)
                if alone.flying and not self._had_ended(task):
                    trace = f"{alone.death} during this run.\n"
                    record_failure(task.folder, task.configuration, trace)
                    self._count(task)

    def _drain(self, rest: deque[int], *, window: int | None) -> Break:
        return drain(
            rest, backend=self.backend, window=window, submit=self._submit, settle=self._settle
        )

    def _submit(self, executor: Executor, index: int) -> Future[None]:
        task = self.tasks[index]
        return executor.submit(attempt, self.work, task.configuration, task.folder)

    def _settle(self, future: Future[None], index: int) -> None:
        """Count a run that ended; what went wrong outside the run itself is a failure of it."""
        task, error = self.tasks[index], future.exception()
        if isinstance(error, BrokenExecutor) and self.backend.can_break:
            raise error
        if isinstance(error, KeyboardInterrupt):  # it reached a worker before it reached us
            raise error
        if error is not None:
            text = "".join(traceback.format_exception(error))
            record_failure(task.folder, task.configuration, text)
        self._count(task)

    def _had_ended(self, task: Task) -> bool:
        """Count a run that left its result just before the executor broke."""
        if ended := has_result(task.folder):
            self._count(task)
        return ended

    def _count(self, task: Task) -> None:
        self.summary.ended[run_state(task.folder)] += 1
        self.on_change(self.summary)


def attempt(work: Work, configuration: Configuration, folder: Path) -> None:
    """One run in a worker: an exception becomes a recorded failure."""
    with _ONE_AT_A_TIME:
        try:
            if not has_result(folder):  # another worker may have been faster
                interruptibly(work, configuration, folder)
        except Locked:
            return  # another process is at it: it will leave the result
        except Exception:  # whatever a user's function raises
            record_failure(folder, configuration, traceback.format_exc())


def _write_plan(out: Path, names: Iterable[str]) -> None:
    """The names of all runs of the grid, those of earlier sweeps of the folder included."""
    with hold_lock(out / ".sweep.lock", on_wait=lambda: None, keep=False):
        runs = list(dict.fromkeys([*read_plan(out), *names]))
        write_atomic(out / PLAN, json.dumps({"runs": runs}, indent=1).encode())


def read_plan(out: Path) -> list[str]:
    """The names of all runs that sweeps of the folder were asked for; none without a sweep.

    Raises:
        UsageError: the plan is damaged.
    """
    if not (out / PLAN).exists():
        return []
    plan = read_json(out / PLAN, what="sweep's plan")
    runs = plan.get("runs") if isinstance(plan, dict) else None
    if not isinstance(runs, list) or not all(isinstance(name, str) for name in runs):
        raise UsageError(f"{out / PLAN} is not a sweep's plan; remove it, and sweep again.")
    return runs
