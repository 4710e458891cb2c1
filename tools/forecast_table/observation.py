"""What the first steps of the table's networks show; it can be made again from their numbers alone."""

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import torch

from bathyscope.foresight.readings import STAGES, features
from tools.forecast_table.draw import draw
from tools.forecast_table.labels import batches, optimizer_of
from tools.forecast_table.networks import network
from tools.forecast_table.parts import PART, Row, read_rows, write_rows
from tools.forecast_table.tasks import task

_FRESH = 9
"""Seed of the batches' order: not one that a labeling training saw."""


def observe(number: int) -> Row:
    """The features of a network at its first start, on batches in an order of their own.

    The learning rate is the draw's largest: a forecast knows the optimizer, not the schedule.
    """
    drawn = draw(number)
    model = network(drawn)
    result = features(
        model,
        list(islice(batches(drawn, seed=_FRESH), max(STAGES))),
        loss=task(drawn.task).loss,
        optimizer=optimizer_of(drawn, model),
    )
    return {
        "number": number,
        "features": {
            str(step): {name: float(f"{value:.4g}") for name, value in values.items()}
            for step, values in result.items()
        },
    }


def observe_all(
    parts: Path, *, again: bool = False, notify: Callable[[int], None] = lambda done: None
) -> int:
    """Observe every labeled network that has no features yet, or all of them again.

    Returns:
        How many have features now.
    """
    torch.set_num_threads(1)
    known = {} if again else {row["number"]: row for row in read_rows(parts, kind="features")}
    numbers = [row["number"] for row in read_rows(parts)]
    for part in sorted({n // PART for n in numbers}):
        inside = [n for n in numbers if n // PART == part]
        missing = [n for n in inside if n not in known]
        for number in missing:
            known[number] = observe(number)
            notify(len(known))
        if missing:
            write_rows(parts / f"features-{part:03d}.jsonl", (known[n] for n in inside))
    return len(known)


def joined(parts: Path) -> list[Row]:
    """Labels and features of every network that has both, in the order of their numbers."""
    seen = {row["number"]: row["features"] for row in read_rows(parts, kind="features")}
    rows: Iterable[dict[str, object]] = read_rows(parts)
    return [row | {"features": seen[row["number"]]} for row in rows if row["number"] in seen]


def fitting_rows(parts: Path) -> list[Row]:
    """The joined rows without those that are kept for the last score."""
    return [row for row in joined(parts) if not draw(row["number"]).held_out]


def held_out_rows(parts: Path) -> list[Row]:
    """The joined rows that are kept for the last score, and for nothing before it."""
    return [row for row in joined(parts) if draw(row["number"]).held_out]
