"""Progress over a whole grid."""

import sys
from typing import Any

from bathyscope.sweep.run import Tally


class GridProgress:
    """A bar over the runs of a sweep on the terminal; nothing where output is no terminal.

    Pass it as `on_change`, inside a `with`.
    """

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> "GridProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, tally: Tally) -> None:
        """Show how the sweep stands."""
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task("runs", total=tally.total, words="")
            self._bar.start()
        self._bar.update(
            self._bar.task_ids[0], completed=tally.done, total=tally.total, words=words(tally)
        )


def words(tally: Tally) -> str:
    """`3 finished, 1 diverged, 2 before`.

    Examples:
        >>> from collections import Counter
        >>> words(Tally(total=3, skipped=1, ended=Counter({"diverged": 2})))
        '2 diverged, 1 before'
    """
    parts = [f"{count} {how}" for how, count in tally.ended.items() if count]
    return ", ".join(parts + ([f"{tally.skipped} before"] if tally.skipped else []))


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
