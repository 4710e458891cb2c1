"""A grid of settings, a network for each, its training and a measurement: one tidy table."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Measurement
from bathyscope.sweep.backends import Backend
from bathyscope.sweep.grid import Grid
from bathyscope.sweep.mapping import map_over

if TYPE_CHECKING:
    import pandas as pd

Build = Callable[[JsonObject], nn.Module]
Train = Callable[[nn.Module, JsonObject], object]
Measure = Callable[[nn.Module, JsonObject], Measurement | Mapping[str, object]]


def measure_over(
    grid: Grid,
    *,
    build: Build,
    measure: Measure,
    train: Train | None = None,
    backend: Backend | None = None,
) -> "pd.DataFrame":
    """Build, train and measure a network at every point of a grid.

    Args:
        grid: the settings; each point is handed to the functions as a dictionary.
        build: makes the network of a point.
        measure: what is measured of it: a `Measurement`, which gives one row per block, or a mapping from
            names to numbers, which gives one row.
        train: changes the network in place before it is measured; without it the start is measured.
        backend: where to run, as `sweep.backend_of` gives it; then the functions must be picklable.
            Without it everything happens in this process.

    Returns:
        A tidy table: the settings of the point, the block where there are blocks, and the quantities.

    Raises:
        UsageError: `measure` gave something else.

    Examples:
        >>> grid = Grid(product={"width": [2, 3]})
        >>> table = measure_over(
        ...     grid,
        ...     build=lambda point: nn.Linear(1, point["width"]),
        ...     measure=lambda model, point: {"weights": model.weight.numel()},
        ... )
        >>> table.to_dict("list")
        {'width': [2, 3], 'weights': [2, 3]}
    """
    import pandas as pd

    work = partial(_rows, build=build, train=train, measure=measure)
    points = grid.points()
    parts = (
        [work(point) for point in points]
        if backend is None
        else map_over(work, points, backend=backend)
    )
    return pd.DataFrame([row for rows in parts for row in rows])


def _rows(
    point: JsonObject, *, build: Build, train: Train | None, measure: Measure
) -> list[dict[str, object]]:
    model = build(dict(point))
    if train is not None:
        train(model, dict(point))
    measured = measure(model, dict(point))
    if isinstance(measured, Mapping):
        return [{**point, **measured}]
    if not isinstance(measured, Measurement):
        raise UsageError(
            f"measure must give a Measurement or a mapping from names to numbers, not a "
            f"{type(measured).__name__}."
        )
    return [
        {**point, "block": block.label, **{name: v[i] for name, v in measured.columns.items()}}
        for i, block in enumerate(measured.blocks)
    ]
