"""Being asked to stop: Ctrl-C, or SIGTERM from a batch system."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class StopRequest:
    """Whether, and by which signal, the run was asked to stop."""

    name: str | None = None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM in place of dying of them, so that a step can be completed and saved.

    A second signal takes its usual course. Outside the main thread, where Python allows no
    handlers, nothing is noted.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        request.name = signal.Signals(number).name
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
