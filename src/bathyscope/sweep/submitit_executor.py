"""submitit's jobs as `concurrent.futures` futures."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

P = ParamSpec("P")
R = TypeVar("R")

_POLL = 0.5  # seconds between looks at the queue


@runtime_checkable
class _Job(Protocol):
    def done(self) -> bool: ...
    def result(self) -> object: ...
    def cancel(self) -> object: ...


@runtime_checkable
class _Jobs(Protocol):
    def submit(self, fn: Callable[..., object], *args: object, **kwargs: object) -> _Job: ...


class SubmititExecutor(Executor):
    """An executor whose futures a thread completes as submitit's jobs end.

    Args:
        jobs: a `submitit.Executor`.
    """

    def __init__(self, jobs: _Jobs) -> None:
        self._jobs = jobs
        self._waiting: list[tuple[_Job, Future[Any]]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Queue a job."""
        future: Future[R] = Future()
        job = self._jobs.submit(fn, *args, **kwargs)
        future.set_running_or_notify_cancel()
        with self._lock:
            self._waiting.append((job, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the jobs, or take them out of the queue."""
        with self._lock:
            jobs = [job for job, _ in self._waiting]
        if cancel_futures:
            for job in jobs:
                job.cancel()
        while wait and not cancel_futures and self._waiting:
            time.sleep(_POLL)
        self._closed = True
        self._watcher.join()

    def _watch(self) -> None:
        while not self._closed:
            with self._lock:
                ended = [(job, future) for job, future in self._waiting if job.done()]
                self._waiting = [pair for pair in self._waiting if pair not in ended]
            for job, future in ended:
                _complete(job, future)
            time.sleep(_POLL)


def _complete(job: _Job, future: Future[Any]) -> None:
    try:
        future.set_result(job.result())
    except Exception as error:  # whatever the job raised belongs to its future
        future.set_exception(error)
