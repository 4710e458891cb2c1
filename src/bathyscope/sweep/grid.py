"""A grid of settings: products and zips of axes, seeds, and exceptions."""

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import Field, field_validator

from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonMapping, JsonObject
from bathyscope.runs import Configuration, read_toml

_MOST_POINTS = 100_000


class Override(Configuration):
    """Values that replace those of the points where all of `where` holds."""

    where: JsonObject
    set: dict[str, object]


class Grid(Configuration):
    """Axes that are multiplied out, axes that move together, seeds, and exceptions.

    Attributes:
        fixed: values shared by all points.
        product: an axis a key; every combination is a point.
        zip: groups of axes of equal length that move together; a group is one more factor.
        seeds: how many (0, 1, …), or which, for the key `seed`; one more factor.
        override: exceptions, applied in order.

    A key with dots, such as `model_options.width`, reaches into a table.

    Examples:
        >>> grid = Grid(product={"lr": [0.1, 0.01]}, zip=[{"a": [1, 2], "b": [3, 4]}], seeds=2)
        >>> len(grid.points()), grid.points()[0]
        (8, {'lr': 0.1, 'a': 1, 'b': 3, 'seed': 0})
    """

    fixed: dict[str, object] = Field(default_factory=dict)
    product: dict[str, list[object]] = Field(default_factory=dict)
    zip: list[dict[str, list[object]]] = Field(default_factory=list)
    seeds: int | list[int] | None = None
    override: list[Override] = Field(default_factory=list)

    @field_validator("zip", mode="before")
    @classmethod
    def _one_group_needs_no_list(cls, value: object) -> object:
        return [value] if isinstance(value, Mapping) else value

    def points(self) -> list[JsonObject]:
        """The settings of every point, in the order of the file, each once.

        Raises:
            UsageError: the grid is empty or beyond reason, or the axes of a zip differ in length.
        """
        _check_size(self._lengths())
        points: dict[str, JsonObject] = {}
        for parts in itertools.product(*self._factors()):
            point: dict[str, object] = {}
            for values in (self.fixed, *parts):
                _assign(point, values)
            for exception in self.override:
                if all(_look_up(point, key) == v for key, v in exception.where.items()):
                    _assign(point, exception.set)
            points.setdefault(json.dumps(point, sort_keys=True, default=str), point)
        if not any((self.fixed, self.product, self.zip, self.seeds)) or not points:
            raise UsageError(
                "The grid is empty: it has no point; give axes with values under [product], "
                "[zip] or [fixed]."
            )
        return list(points.values())

    def _lengths(self) -> Iterator[int]:
        """How many values each factor has."""
        yield from (len(values) for values in self.product.values())
        yield from (max(map(len, group.values()), default=0) for group in self.zip)
        if self.seeds is not None:
            yield self.seeds if isinstance(self.seeds, int) else len(self.seeds)

    def _factors(self) -> Iterator[list[dict[str, object]]]:
        for key, values in self.product.items():
            yield [{key: value} for value in values]
        for group in self.zip:
            lengths = {key: len(values) for key, values in group.items()}
            if len(set(lengths.values())) > 1:
                raise UsageError(
                    f"The axes of a zip must have the same length, but theirs are {lengths}."
                )
            yield [dict(zip(group, row, strict=True)) for row in zip(*group.values(), strict=True)]
        if self.seeds is not None:
            seeds = range(self.seeds) if isinstance(self.seeds, int) else self.seeds
            yield [{"seed": seed} for seed in seeds]


def read_grid(path: Path | str) -> Grid:
    """The grid of a TOML file.

    Raises:
        UsageError: the file cannot be read, or a key is unknown or of the wrong type.
    """
    return Grid.parse(read_toml(path), source=f"The grid {path}")


def _check_size(lengths: Iterable[int]) -> None:
    """Refuse a grid before its points are made: 1e11 of them would fill the memory first."""
    size = math.prod(lengths)
    if size > _MOST_POINTS:
        raise UsageError(
            f"The grid has {size:,} points, more than the {_MOST_POINTS:,} that one sweep takes; "
            "shorten its axes, or split it into several grids."
        )


def _assign(point: JsonObject, values: JsonMapping) -> None:
    """Set each key, dots reaching into tables; tables are copied, for points do not share them."""
    for key, value in values.items():
        *tables, last = key.split(".")
        target = point
        for name in tables:
            inner = target.get(name, {})
            target[name] = dict(inner) if isinstance(inner, Mapping) else {}
            target = target[name]
        target[last] = dict(value) if isinstance(value, Mapping) else value


def _look_up(point: Mapping[str, object], key: str) -> object:
    value: object = point
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value
