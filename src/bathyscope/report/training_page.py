"""A watched training on one page: what happened, and the curves over its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bathyscope.report.document import render
from bathyscope.report.findings import VerdictCard
from bathyscope.report.page import step_places
from bathyscope.report.panels import Panel, Trace
from bathyscope.report.svg import drawn_panel

# Curves of more blocks than these would hide one another.
_MOST_BLOCKS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """An event in a sentence: what, what came before it, the numbers, what to do."""

    step: int
    sentence: str
    before: Sequence[str]
    numbers: Sequence[tuple[str, str]]
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPage:
    """What the page shows.

    Attributes:
        title: the model's name.
        num_steps: taken.
        events: in order.
        curves: of the whole network, by name: steps and values.
        block_curves: by quantity, then by block.
    """

    title: str
    num_steps: int
    events: Sequence[EventView]
    curves: Mapping[str, tuple[Sequence[float], Sequence[float | None]]]
    block_curves: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float | None]]]]


def training_html(page: TrainingPage) -> str:
    """The page; it works offline.

    Examples:
        >>> quiet = TrainingPage(title="mlp", num_steps=3, events=(), curves={}, block_curves={})
        >>> "Nothing out of the ordinary" in training_html(quiet)
        True
    """
    first = page.events[0].sentence if page.events else "Nothing out of the ordinary was noticed."
    count = len(page.events)
    curves, blocks = training_panels(page), block_panels(page)
    return render(
        "training.html",
        title=page.title,
        verdict=VerdictCard(
            level="problem" if page.events else "clean",
            sentence=first,
            facts=f"{page.num_steps} steps · {count} event{'' if count == 1 else 's'}",
        ),
        events=page.events,
        curve_plots=[drawn_panel(panel, locations="steps") for panel in curves],
        steps=step_places(curves),
        block_plots=[drawn_panel(panel, locations="samples") for panel in blocks],
        samples=step_places(blocks),
    )


def training_panels(page: TrainingPage) -> list[Panel]:
    """Loss, gradient norm and learning rate over the steps."""
    marks = _marks(page)
    return [
        Panel(
            title=name,
            log=_is_logarithmic(y),
            traces=[Trace(name=page.title, color=0, x=x, y=y)],
            marks=marks,
        )
        for name, (x, y) in page.curves.items()
        if any(v is not None for v in y)
    ]


def block_panels(page: TrainingPage) -> list[Panel]:
    """The blocks where it began, over the steps."""
    marks = _marks(page)
    panels = []
    for name, blocks in page.block_curves.items():
        traces = [
            Trace(name=label, color=at, x=x, y=y)
            for at, (label, (x, y)) in enumerate(list(blocks.items())[:_MOST_BLOCKS])
        ]
        values = [v for trace in traces for v in trace.y]
        if any(v is not None for v in values):
            panels.append(
                Panel(title=name, log=_is_logarithmic(values), traces=traces, marks=marks)
            )
    return panels


def _marks(page: TrainingPage) -> list[float]:
    return sorted({float(event.step) for event in page.events})


def _is_logarithmic(values: Sequence[float | None]) -> bool:
    """Over more than a decade; over three where zeros, as of a gradient that stopped, become gaps."""
    known = [v for v in values if v is not None]
    positive = [v for v in known if v > 0]
    if not positive or min(known) < 0:
        return False
    return max(positive) > (10 if min(known) > 0 else 1000) * min(positive)
