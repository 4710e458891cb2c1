"""How far a long computation is, told to whoever asked, and the one bar that shows it on a terminal.

What computes calls `begin_stage` and `tell_progress`; nothing happens unless `hear_progress` is around it,
so that no function needs an argument for it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@dataclass(slots=True)
class _Hearing:
    tell: Callable[[str], None]
    stage: str = ""


_HEARING: ContextVar[_Hearing | None] = ContextVar("hearing", default=None)


@contextmanager
def hear_progress(tell: Callable[[str], None]) -> Iterator[None]:
    """Within, `tell` is called with what is done and of how much, in words.

    Examples:
        >>> with hear_progress(print):
        ...     begin_stage("curvature", 2, 5)
        ...     tell_progress("block", 3, 20)
        2 of 5, curvature
        2 of 5, curvature: block 3 of 20
    """
    before = _HEARING.set(_Hearing(tell))
    try:
        yield
    finally:
        _HEARING.reset(before)


def begin_stage(what: str, number: int, total: int) -> None:
    """One of several stages of different kinds begins, counted from 1; a single one is not told later."""
    hearing = _HEARING.get()
    if hearing is not None:
        hearing.stage = f"{number} of {total}, {what}" if total > 1 else ""
        hearing.tell(hearing.stage or what)


def tell_progress(what: str, number: int, total: int) -> None:
    """The turn of one among many of a kind, counted from 1: a step, a block."""
    hearing = _HEARING.get()
    if hearing is not None:
        text = f"{what} {number} of {total}"
        hearing.tell(f"{hearing.stage}: {text}" if hearing.stage else text)


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
        None where the error stream is no terminal.
    """
    if not sys.stderr.isatty():
        return None
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
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if of_bytes else MofNCompleteColumn(),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=of_bytes,
    )
    bar.add_task(description, total=total, completed=done, words="")
    bar.start()
    return bar
