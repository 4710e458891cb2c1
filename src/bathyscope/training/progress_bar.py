"""A progress bar with loss, accuracy, gradient norm and time left."""

import time
from typing import TYPE_CHECKING

from bathyscope.core.progress import terminal_bar
from bathyscope.training.callbacks import Callback, LoopView, Record

if TYPE_CHECKING:
    from rich.progress import Progress

_EVERY = 0.2  # seconds between refreshes: a bar is read by a person
_PATIENCE = 2.0  # seconds before it shows: what is over sooner needs none


class ProgressBar(Callback):
    """Shows where a run stands on the terminal, and nothing where output is not a terminal.

    Args:
        description: what is shown before the bar.
    """

    def __init__(self, description: str = "training") -> None:
        self.description = description
        self._bar: Progress | None = None
        self._began = self._shown = 0.0

    def on_start(self, loop: LoopView) -> None:
        """Remember when it began."""
        self._began = time.monotonic()

    def on_step(self, loop: LoopView, record: Record) -> None:
        """Refresh the bar, at most five times per second."""
        moment = time.monotonic()
        if moment - self._shown < _EVERY or moment - self._began < _PATIENCE:
            return
        self._shown = moment
        if self._bar is None:
            self._bar = terminal_bar(self.description, total=loop.num_steps, done=loop.step)
            if self._bar is None:
                self._shown = float("inf")
                return
        self._bar.update(self._bar.task_ids[0], completed=loop.step, text=_numbers(record))

    def on_end(self, loop: LoopView, ending: str) -> None:
        """Leave the last state of the bar on the terminal."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=loop.step)
            self._bar.stop()
            self._bar = None


def _numbers(record: Record) -> str:
    shown = {"loss": "loss {:.4f}", "accuracy": "acc {:.3f}", "gradient_norm": "‖g‖ {:.2e}"}
    return " ".join(text.format(record[key]) for key, text in shown.items() if key in record)
