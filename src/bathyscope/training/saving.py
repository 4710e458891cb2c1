"""When and how a running loop is saved."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from bathyscope.core.files import DiskFull
from bathyscope.runs import Checkpoint, Run, Status, keep_weights, load_checkpoint, save_checkpoint
from bathyscope.training.loop import Loop
from bathyscope.training.state import STATE_KEYS, restore_, state_of, weights_of

_FLUSH = 5.0  # seconds after which metrics reach the disk, for whoever watches the run


@dataclass(frozen=True, slots=True)
class Saving:
    """How often to save a checkpoint: it costs a write of the weights, and decides no number.

    Attributes:
        every_seconds: between checkpoints; what a crash may cost.
        every_steps: beside it, at these steps; never for None.
    """

    every_seconds: float = 60.0
    every_steps: int | None = None


class Saver:
    """Saves a loop into its run, and restores it. Without a run (not the first process) it only
    takes part.

    Args:
        loop: what is saved.
        folder: the run's folder, to restore from.
        saving: how often.
        run: the open run that is written to.
    """

    def __init__(self, loop: Loop, folder: Path, saving: Saving, *, run: Run | None = None) -> None:
        self.loop = loop
        self.folder = folder
        self.saving = saving
        self.run = run
        self._saved = self._flushed = time.monotonic()

    def restore(self) -> None:
        """Put the last whole checkpoint into the loop, if there is one.

        Every process reads before the first may write again.
        """
        checkpoint = load_checkpoint(self.folder, keys=(*STATE_KEYS, "metrics_position"))
        if checkpoint is not None:
            restore_(self.loop, checkpoint)
        self.loop.group.wait()
        if self.run is None:
            return
        position = 0 if checkpoint is None else checkpoint.state["metrics_position"]
        self.run.cut_metrics(position)
        self.loop.write = self.run.metrics.append
        for note in _notes(checkpoint):
            self.run.note(note)
        self.run.save()

    def due(self) -> bool:
        """Whether a checkpoint should be saved after this step; metrics are flushed on the way."""
        if self.run is None:
            return False
        moment = time.monotonic()
        if moment - self._flushed > _FLUSH:
            self._flushed = moment
            self.run.metrics.flush()
        every = self.saving.every_steps
        return moment - self._saved >= self.saving.every_seconds or (
            every is not None and self.loop.step % every == 0
        )

    def save(self) -> None:
        """Save a checkpoint: first the metrics, so that it never points behind their end."""
        state = state_of(self.loop)
        if self.run is not None:
            state["metrics_position"] = self.run.metrics.flush(sync=True)
            weights = weights_of(self.loop.model)
            save_checkpoint(self.folder, self.loop.step, weights=weights, state=state)
        self._saved = time.monotonic()

    def finish(self, status: Status, ending: str) -> None:
        """Save the end of the run; the manifest, written last, makes it final."""
        self.save()
        if self.run is not None:
            keep_weights(self.folder)
            self.run.end(status, ending, result=self.loop.result)

    def give_up(self, ending: str) -> None:
        """Record a stop where there may be no room to record it."""
        if self.run is None:
            return
        self.run.metrics.abandon()
        try:
            self.run.manifest.status, self.run.manifest.ending = "stopped", ending
            self.run.save()
        except DiskFull:
            return  # the run then counts as interrupted, and resumes the same way


def _notes(checkpoint: Checkpoint | None) -> list[str]:
    """What a reader of a resumed run must know."""
    if checkpoint is None:
        return []
    before, now = checkpoint.state["threads"], torch.get_num_threads()
    if before == now:
        return list(checkpoint.notes)
    return [
        *checkpoint.notes,
        f"Resumed at step {checkpoint.step} with {now} threads after {before}: sums are rounded in "
        "another order, so the result may differ in the last digits from an uninterrupted run.",
    ]
