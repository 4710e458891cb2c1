"""The metrics of a run in TensorBoard."""

from pathlib import Path
from typing import TYPE_CHECKING

from bathyscope.core.errors import UsageError
from bathyscope.core.trackers import Tracker, tracker_of
from bathyscope.training.callbacks import Callback, LoopView, Record

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(Callback):
    """Writes every number of the metrics as a scalar: `step/loss`, `epoch/test_accuracy`, ….

    A run that is resumed continues in the same curves; what was written after its last checkpoint is
    dropped.

    Args:
        folder: where TensorBoard looks: `tensorboard --logdir FOLDER`.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._writer: SummaryWriter | None = None
        self._tracker: Tracker | None = None

    def on_start(self, loop: LoopView) -> None:
        """Open the event file.

        Raises:
            UsageError: tensorboard is not installed.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UsageError(
                "tensorboard is not installed; install it with: pip install "
                "'bathyscope[tensorboard]'."
            ) from error
        self._writer = SummaryWriter(
            str(self.folder), purge_step=loop.step + 1 if loop.step else None
        )
        self._tracker = tracker_of(self._writer)

    def on_step(self, loop: LoopView, record: Record) -> None:
        """The numbers of a step."""
        self._write("step", record)

    def on_epoch(self, loop: LoopView, record: Record) -> None:
        """The numbers of an epoch."""
        self._write("epoch", record)

    def on_end(self, loop: LoopView, ending: str) -> None:
        """Close the event file."""
        assert self._writer is not None, "a run has begun"
        self._writer.add_text("ending", ending, loop.step)
        self._writer.close()

    def _write(self, kind: str, record: Record) -> None:
        assert self._tracker is not None, "a run has begun"
        for name, value in record.items():
            if isinstance(value, float):
                self._tracker.log_number(f"{kind}/{name}", value, record["step"])
