"""The one progress display: on a terminal a bar that says how far and how long, elsewhere nothing."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


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
