"""How far a long computation is, reported to whoever asked, and what shows it on a terminal.

What computes calls `begin_stage` and `report_progress`; nothing happens unless `on_progress` is around it,
so that no function needs an argument for it.
"""

import importlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bathyscope.core.global_state import on_device_thread
from bathyscope.core.terminal import printable

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass(slots=True, eq=False)
class _Receiver:
    call: Callable[[str], None]
    stage: str = ""


_RECEIVER: ContextVar[_Receiver | None] = ContextVar("receiver", default=None)
_receivers: list[_Receiver] = []


@contextmanager
def on_progress(call: Callable[[str], None]) -> Iterator[None]:
    """Within, `call` is called with what is done and of how much, as a text.

    Examples:
        >>> with on_progress(print):
        ...     begin_stage("curvature", 2, 5)
        ...     report_progress("block", 3, 20)
        2 of 5, curvature
        2 of 5, curvature: block 3 of 20
    """
    receiver = _Receiver(call)
    before = _RECEIVER.set(receiver)
    _receivers.append(receiver)
    try:
        yield
    finally:
        _receivers.remove(receiver)
        _RECEIVER.reset(before)


def _receiver() -> _Receiver | None:
    """Whoever asked; a device's thread, which knows no context, reports to the last one who did."""
    if _receivers and on_device_thread():
        return _receivers[-1]
    return _RECEIVER.get()


def begin_stage(what: str, number: int, total: int) -> None:
    """One of several stages of different kinds begins, counted from 1; a single one is not named later."""
    receiver = _receiver()
    if receiver is not None:
        receiver.stage = f"{number} of {total}, {what}" if total > 1 else ""
        receiver.call(receiver.stage or what)


def report_progress(what: str, number: int, total: int) -> None:
    """The turn of one among many of a kind, counted from 1: a step, a block."""
    receiver = _receiver()
    if receiver is not None:
        text = f"{what} {number} of {total}"
        receiver.call(f"{receiver.stage}: {text}" if receiver.stage else text)


def terminal_bar(
    description: str, *, total: int | None, done: int = 0, of_bytes: bool = False
) -> "Progress | None":
    """A bar that has begun, with one task; `words` of an update stand beside it.

    Args:
        description: what is shown before the bar.
        total: how many there are; None where it is not known yet.
        done: how many there are already.
        of_bytes: whether bytes are counted.

    Returns:
        None where the error stream is not a terminal.
    """
    if not sys.stderr.isatty():
        return None
    _load_rich()
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn() if of_bytes else MofNCompleteColumn(),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=of_bytes,
    )
    bar.add_task(printable(description), total=total, completed=done, text="")
    bar.start()
    return bar


def _load_rich() -> None:
    """Import rich, whose import takes random numbers, without moving those of the user's run."""
    state = random.getstate()
    importlib.import_module("rich.progress")
    random.setstate(state)


_PATIENCE_SECONDS = 2.0
"""Shorter work shows nothing."""


@contextmanager
def count_products(title: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts products of matrices; a line shows them on a terminal."""
    _load_rich()
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.completed:.0f} products, {task.fields[rate]:.1f} a second"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = progress.add_task(printable(title), total=None, rate=0.0)
    began = time.monotonic()
    done = 0
    started = False

    def count(num: int) -> None:
        nonlocal done, started
        done += num
        elapsed = time.monotonic() - began
        if elapsed > _PATIENCE_SECONDS and not started:
            progress.start()
            started = True
        progress.update(task, completed=done, rate=done / max(elapsed, 1e-9))

    try:
        yield count
    finally:
        progress.stop()
