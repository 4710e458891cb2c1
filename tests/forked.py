"""A process of its own for a test, forked so that torch need not be loaded again."""

import ctypes
import gc
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from tests.unchecked import unchecked

T = TypeVar("T")


def result_in_fork(function: Callable[[], T]) -> T:
    """What the function returns in a fork without checks of types, whose resident memory is all in use."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(function, send))
    process.start()
    send.close()
    try:
        return receive.recv()
    finally:
        process.join()


def _send_result(function: Callable[[], T], send: Connection) -> None:
    gc.collect()
    # What the parent had freed would hide that memory grows: it goes back to the system, and comes again.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    with unchecked():
        send.send(function())
