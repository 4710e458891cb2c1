"""The page of a watched training, from its recording."""

from collections.abc import Sequence
from math import isfinite, isnan

import numpy as np

from bathyscope.core.blocks import Blocks
from bathyscope.core.records import Number
from bathyscope.recorder.curve import BoundedCurve
from bathyscope.recorder.event import Event
from bathyscope.recorder.samples import COLUMNS, TakenSamples
from bathyscope.report import EventView, TrainingPage, training_html

# Quantities of the blocks that are drawn.
_DRAWN = {"std": "deviation of the output", "gradient_out": "gradient norm at the output"}
_NEIGHBOURS = 2


def training_page(
    title: str,
    *,
    num_steps: int,
    events: Sequence[Event],
    curve: BoundedCurve,
    samples: TakenSamples,
) -> str:
    """The page as HTML: events, curves of the whole network, and of the blocks where it began."""
    steps = [float(s) for s in curve.steps]
    return training_html(
        TrainingPage(
            title=title,
            num_steps=num_steps,
            events=[_view(event) for event in events],
            curves={
                name: (steps, _gaps(curve.values[:, at]))
                for at, name in enumerate(("loss", "gradient norm", "learning rate"))
            },
            block_curves=_block_curves(samples, events),
        )
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
        words: {
            samples.blocks[i].label: (steps, _gaps(values[:, i, COLUMNS.index(column)]))
            for i in shown
        }
        for column, words in _DRAWN.items()
    }


def _shown_blocks(blocks: Blocks, events: Sequence[Event]) -> list[int]:
    """The blocks around the first event's; the first, middle and last where none is named."""
    index = {b.label: b.index for b in blocks}
    named = next((index[e.block] for e in events if e.block in index), None)
    if named is None:
        return sorted({0, len(blocks) // 2, len(blocks) - 1})
    first = max(0, named - _NEIGHBOURS)
    return list(range(first, min(len(blocks), named + _NEIGHBOURS + 1)))


def _view(event: Event) -> EventView:
    return EventView(
        step=event.step,
        sentence=event.sentence,
        before=event.before,
        numbers=[(name.replace("_", " "), _text(v)) for name, v in event.numbers.items()],
        advice=event.advice,
    )


def _text(value: Number) -> str:
    if isinstance(value, float):
        return "not a number" if isnan(value) else f"{value:.4g}"
    return str(value)


def _gaps(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[float | None]:
    return [float(v) if isfinite(v) else None for v in values]
