"""How a watched training is shown: on one screen, as a page, as a figure."""

from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from bathyscope.core.blocks import Blocks
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.files import check_location, write_atomic
from bathyscope.core.shown import Shown, save_picture
from bathyscope.core.walks import own_class
from bathyscope.recorder.event import Event
from bathyscope.recorder.recording import Recording
from bathyscope.recorder.samples import COLUMNS, TakenSamples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bathyscope.report.training_page import EventView, TrainingPage

# Quantities of the blocks that are drawn.
_DRAWN = {"std": "standard deviation of the output", "gradient_out": "gradient norm at the output"}
_NEIGHBORS = 2


class WatchedTraining(Shown):
    """What a watch shows of its training: one screen, a page, a figure for each curve."""

    model: nn.Module
    recording: Recording | None

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened so far."""
        raise NotImplementedError

    @property
    def steps(self) -> int:
        """How many were taken so far."""
        raise NotImplementedError

    @property
    def is_recording(self) -> bool:
        """Whether it still listens to the training."""
        raise NotImplementedError

    @property
    def not_checked(self) -> tuple[str, ...]:
        """What could not be checked of the loop, one sentence each."""
        raise NotImplementedError

    def report(self, path: str | Path = "watch.html") -> Path:
        """Write the page of the training: events, curves over the steps, the blocks where it began.

        Raises:
            UsageError: no step was seen yet, the name does not end in `.html`, or it cannot be written.
        """
        from bathyscope import report

        path, page = Path(path), self._page()
        if path.suffix != ".html":
            raise UsageError(f"The page of a training is an .html file, but {path.name} was given.")
        check_location(path)
        write_atomic(path, report.training_html(page).encode())
        return path

    def plot(self, quantity: str = "loss", ax: "Axes | None" = None) -> "Axes":
        """A curve over the steps: `loss`, `gradient norm`, `learning rate`, or one of the blocks.

        Raises:
            UnknownName: there is no such curve.
            UsageError: no step was seen yet.
        """
        from bathyscope.report.picture import plot_panel
        from bathyscope.report.training_page import block_panels, training_panels

        page = self._page()
        panels = {panel.title: panel for panel in (*training_panels(page), *block_panels(page))}
        if quantity not in panels:
            raise UnknownName("curve", quantity, list(panels))
        return plot_panel(panels[quantity], ax)

    def save(self, path: str | Path) -> Path:
        """Write the page as `.html`, or the loss as `.png`, `.svg` or `.pdf`.

        Raises:
            UsageError: the ending is another, no step was seen yet, or the file cannot be written.
        """
        if Path(path).suffix.lower() == ".html":
            return self.report(path)
        return save_picture(lambda ax: self.plot(ax=ax), Path(path))

    def _headline(self) -> str:
        events = f"{len(self.events)} event{'s' * (len(self.events) != 1)}"
        first = 0 if self.recording is None else self.recording.first_step
        resumed = f" (from step {first} on, where its log had ended)" if first else ""
        return f"{own_class(self.model).__name__}: {self.steps} steps{resumed}, {events}"

    def _rows(self) -> Iterable[tuple[str, str]]:
        for event in self.events:
            yield event.code, event.sentence
        if not self.is_recording and not (self.recording and self.recording.counts_updates):
            for note in self.not_checked:  # no optimizer: why the loop was not judged
                yield "not checked", note
        if self.is_recording:
            yield "recording", "watch.remove() stops it and writes what is open"
        if self.recording is None:
            when = " yet" if self.is_recording else ""
            yield "recorded", f"nothing{when}: no training step was seen"
        elif len(self.recording.curve.steps):
            first, last = self.recording.curve.values[[0, -1], 0]
            yield "loss", f"{first:.4g} at the first step, {last:.4g} at the last"
            yield "more", "watch.report() writes the page, watch.table has every sample"

    def _page(self) -> "TrainingPage":
        from bathyscope.report.training_page import TrainingPage

        if self.recording is None:
            raise UsageError("Nothing was recorded yet: no training step was seen by this watch.")
        curve = self.recording.curve
        steps = [float(s) for s in curve.steps]
        return TrainingPage(
            title=own_class(self.model).__name__,
            num_steps=self.recording.steps,
            events=[_view(event) for event in self.events],
            curves={
                name: (steps, _gaps(curve.values[:, at]))
                for at, name in enumerate(("loss", "gradient norm", "learning rate"))
            },
            block_curves=_block_curves(self.recording.samples, self.events),
        )


def _block_curves(
    samples: TakenSamples, events: Sequence[Event]
) -> dict[str, dict[str, tuple[list[float], list[float | None]]]]:
    if not samples.steps:
        return {}
    shown = _shown_blocks(samples.blocks, events)
    steps = [float(s) for s in samples.steps]
    values = np.stack(samples.values)
    return {
        name: {
            samples.blocks[i].label: (steps, _gaps(values[:, i, COLUMNS.index(column)]))
            for i in shown
        }
        for column, name in _DRAWN.items()
    }


def _shown_blocks(blocks: Blocks, events: Sequence[Event]) -> list[int]:
    """The blocks around the first event's; the first, middle and last where none is named."""
    index = {b.label: b.index for b in blocks}
    named = next((index[e.block] for e in events if e.block in index), None)
    if named is None:
        return sorted({0, len(blocks) // 2, len(blocks) - 1})
    first = max(0, named - _NEIGHBORS)
    return list(range(first, min(len(blocks), named + _NEIGHBORS + 1)))


def _view(event: Event) -> "EventView":
    from bathyscope.report.numbers import number
    from bathyscope.report.training_page import EventView

    return EventView(
        step=event.step,
        sentence=event.sentence,
        before=event.before,
        numbers=[(_label(name), number(v)) for name, v in event.numbers.items()],
        advice=event.advice,
    )


_LABELS = {
    "std": "standard deviation",
    "dead": "fraction of dead units",
    "variety": "fraction that differs between samples",
    "entropy": "attention entropy",
}


def _label(name: str) -> str:
    """Of an event's number: a column of the record in words, and when."""
    column = name.removesuffix("_before")
    label = _LABELS.get(column, column.replace("_", " "))
    return label if column == name else f"{label} before"


def _gaps(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[float | None]:
    return [float(v) if isfinite(v) else None for v in values]
