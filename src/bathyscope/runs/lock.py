"""One writer a run: a lock that the operating system drops when its holder dies."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bathyscope.core.errors import BathyscopeError

_PATIENCE = (
    0.3  # seconds; `is_locked` holds a shared lock for microseconds, and must not refuse a run
)


class RunLocked(BathyscopeError):
    """Another process is writing this run."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's exclusive lock (flock): a process that is killed, even by SIGKILL, frees it.

    Args:
        path: the lock file, which is created and stays; it names its last holder.

    Raises:
        RunLocked: another process holds it; the message names the holder.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _taken(descriptor):
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "a process"
            raise RunLocked(
                f"The run {path.parent} is being written by {holder}; wait until it ends, or end it."
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock now."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
