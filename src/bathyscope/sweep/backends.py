"""Where a sweep runs: local processes, Dask, SLURM; each gives a `concurrent.futures.Executor`."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import torch

from bathyscope.core.arguments import check_count, check_name
from bathyscope.core.errors import UsageError, shorten

P = ParamSpec("P")
R = TypeVar("R")

# Modules, and not packages, whose names are loaded when they are asked for; the first optimizer wants dynamo.
PRELOADED = ("torch._dynamo", "bathyscope.runs.folder", "bathyscope.training.runner")
"""What the server of local workers imports once, for all of them."""

_SLURM_WINDOW = 64  # jobs that wait or run in the queue at one time


@dataclass(frozen=True, slots=True)
class Backend:
    """How to get an executor.

    Attributes:
        open: gives the executor for as long as it is needed; called again where one broke.
        window: runs that are handed over at one time; all at once for None.
        can_break: whether a dying worker takes the executor with it, as in a process pool.
    """

    open: Callable[[], AbstractContextManager[Executor]]
    window: int | None = None
    can_break: bool = False


def backend_of(on: str, *, workers: int | None = None, folder: Path | None = None) -> Backend:
    """The backend of a name on the command line.

    Args:
        on: `local`; `dask` for a cluster on this machine, `dask://host:port` for one that runs;
            `slurm`, or `submitit` for its queue in local processes.
        workers: processes, for those that are started here; one per core for None.
        folder: where submitit keeps its logs.

    Raises:
        UsageError: there is no such backend, or its package is not installed.
    """
    check_name("on", on)
    if workers is not None:
        workers = check_count("workers", workers, minimum=1)
    workers = workers or os.cpu_count() or 1
    if on == "local":
        return local(workers)
    if on == "dask" or on.startswith("dask://"):
        return dask(None if on == "dask" else on.removeprefix("dask://"), workers=workers)
    if on in ("slurm", "submitit"):
        return slurm(folder or Path("submitit"), cluster="slurm" if on == "slurm" else "local")
    raise UsageError(
        f"A sweep cannot run on {shorten(on)}; give local, dask, dask://host:port, slurm or submitit."
    )


def on_executor(executor: Executor) -> Backend:
    """An executor of one's own; it is left open."""
    return Backend(lambda: nullcontext(executor))


def local(workers: int) -> Backend:
    """A pool of processes that share the cores evenly and die with their parent."""
    threads = max(1, (os.cpu_count() or 1) // workers)

    def pool() -> _Pool:
        # Not a fork of this process, whose torch threads would not survive it, but of a server that
        # has imported torch and done nothing: workers start in milliseconds.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        resource_tracker.ensure_running()  # first: starting it lets Ctrl-C through again
        with _hold_ctrl_c():  # which would print a traceback while it imports
            forkserver.ensure_running()
        return _Pool(workers, mp_context=context, initializer=_settle, initargs=(threads,))

    return Backend(pool, window=workers, can_break=True)


def dask(address: str | None, *, workers: int = 2) -> Backend:
    """A Dask cluster: the one at an address, or one of this machine's processes."""

    @contextmanager
    def connect() -> Iterator[Executor]:
        distributed = _import_extra("distributed", extra="dask")
        if address is None:
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None
            )
        else:
            cluster = nullcontext(address if "://" in address else f"tcp://{address}")
        with cluster as where:
            try:
                client = distributed.Client(where)
            except OSError as error:
                raise UsageError(f"No Dask scheduler answers at {address}: {error}.") from None
            with client, client.get_executor(pure=False) as executor:
                yield executor

    return Backend(connect)


def slurm(folder: Path, *, cluster: str = "slurm", **parameters: Any) -> Backend:
    """One job per run through submitit; parameters as in `AutoExecutor.update_parameters`."""

    @contextmanager
    def queue() -> Iterator[Executor]:
        submitit = _import_extra("submitit", extra="slurm")
        from bathyscope.sweep.submitit_executor import SubmititExecutor

        jobs = submitit.AutoExecutor(folder=folder, cluster=cluster)
        jobs.update_parameters(**parameters)
        with SubmititExecutor(jobs) as executor:
            yield executor

    return Backend(queue, window=_SLURM_WINDOW if cluster == "slurm" else os.cpu_count())


def _import_extra(name: str, *, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{name} is not installed; install it with: pip install 'bathyscope[{extra}]'."
        ) from error


class _Idle:
    """What a worker does at Ctrl-C, which reaches every process, while it has nothing to do."""

    asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Do not complain; work that is on its way here does not begin any more."""
        self.asked = True


def interruptibly(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that Ctrl-C ends, in a worker of a local pool too.

    Raises:
        KeyboardInterrupt: Ctrl-C came, and the function did not take it for itself.
    """
    idle = signal.getsignal(signal.SIGINT)
    if not isinstance(idle, _Idle):
        return work(*args, **kwargs)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if idle.asked:
            raise KeyboardInterrupt
        return work(*args, **kwargs)
    finally:
        signal.signal(signal.SIGINT, idle)


@contextmanager
def _hold_ctrl_c(started: Callable[[], Iterable[int]] = tuple) -> Iterator[None]:
    """Within, Ctrl-C waits; a process that is started here keeps it waiting until it is ready.

    A Ctrl-C that came is passed on to the processes that were `started` within: it may have come
    before they did. Outside the main thread, to which Python brings every signal, nothing is held.
    """
    seen: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    held = threading.current_thread() is threading.main_thread() and before is not None
    if held:
        signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # a child inherits this
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if held:
            signal.signal(signal.SIGINT, before)
        if seen:
            for process in started():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGINT)
            signal.raise_signal(signal.SIGINT)


class _Pool(ProcessPoolExecutor):
    """A pool that Ctrl-C does not catch half-way through starting a worker, which would complain."""

    _started: Mapping[int, BaseProcess] | None = None

    def exit_codes(self) -> list[int | None]:
        """Of its workers, once it is shut down; the executor itself forgets them."""
        return [process.exitcode for process in (self._started or {}).values()]

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        before = set(self._processes or ())
        with _hold_ctrl_c(started=lambda: set(self._processes or ()) - before):
            try:
                return super().submit(fn, *args, **kwargs)
            finally:
                self._started = self._started or self._processes


def exit_codes(executor: Executor) -> list[int | None]:
    """Exit codes of the workers of a local pool that is shut down; none are known of other executors."""
    return executor.exit_codes() if isinstance(executor, _Pool) else []


def _settle(threads: int) -> None:
    """Make a pool's worker a good neighbor."""
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, _Idle())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def follow() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)  # a killed sweep must leave no worker that holds the lock of a run

    threading.Thread(target=follow, daemon=True).start()
