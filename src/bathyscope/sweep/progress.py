"""Progress over a whole grid."""

from typing import TYPE_CHECKING

from bathyscope.core.progress import terminal_bar
from bathyscope.sweep.run import Tally

if TYPE_CHECKING:
    from rich.progress import Progress


class GridProgress:
    """A bar over the runs of a sweep on the terminal; nothing where output is not a terminal.

    Pass it as `on_change`, inside a `with`.
    """

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def __enter__(self) -> "GridProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, summary: Tally) -> None:
        """Show how the sweep stands."""
        if self._bar is None:
            self._bar = terminal_bar("runs", total=summary.total)
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                completed=summary.done,
                total=summary.total,
                text=summary_line(summary),
            )


def summary_line(summary: Tally) -> str:
    """`3 finished, 1 diverged, 2 before`.

    Examples:
        >>> from collections import Counter
        >>> summary_line(Tally(total=3, skipped=1, ended=Counter({"diverged": 2})))
        '2 diverged, 1 before'
    """
    parts = [f"{count} {how}" for how, count in summary.ended.items() if count]
    return ", ".join(parts + ([f"{summary.skipped} before"] if summary.skipped else []))
