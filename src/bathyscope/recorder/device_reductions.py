"""Outputs of blocks that lie on a device: few launches reduce them, and the host waits for none."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bathyscope.core.fetch import SMALL, fetch

_MOST_BYTES = 2**24
"""Of copies that wait for others of their shape."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A column of some blocks, computed on the host from what a device will report, one entry a block."""

    rows: tuple[int, ...]
    column: str
    tensors: tuple[Tensor, ...]
    finish: Callable[..., float]


def read(pending: list[Pending]) -> Iterator[tuple[int, str, float]]:
    """Row, column and number of each, fetched at once."""
    numbers = iter(fetch([tensor for each in pending for tensor in each.tensors]))
    for each in pending:
        of_rows = zip(*(next(numbers) for _ in each.tensors), strict=True)
        for row, own in zip(each.rows, of_rows, strict=True):
            yield row, each.column, each.finish(*own)


class DeviceReductions:
    """Reduces outputs; small ones of one shape together, from copies, as layers in place may overwrite them.

    A launch costs the host as much for many of them as for one.

    Args:
        dtype: in which they are reduced.
        samples: at the beginning of each, that are compared with one another.
    """

    def __init__(self, dtype: torch.dtype, *, samples: int) -> None:
        self.dtype = dtype
        self.samples = samples
        self._waiting: dict[tuple[object, ...], list[tuple[int, Tensor]]] = {}
        self._size = 0

    def add(self, row: int, x: Tensor) -> list[Pending]:
        """Take in the output of a block; what can be read of this and others already."""
        if x.numel() > SMALL:
            return list(_reduced((row,), x.to(self.dtype)[None], samples=self.samples))
        copy = x.to(self.dtype, copy=True)
        self._waiting.setdefault((x.shape, x.device), []).append((row, copy))
        self._size += copy.nbytes
        return self.flush() if self._size > _MOST_BYTES else []

    def flush(self) -> list[Pending]:
        """Reduce what waits."""
        waiting, self._waiting, self._size = self._waiting, {}, 0
        result: list[Pending] = []
        for alike in waiting.values():
            stack = torch.stack([copy for _, copy in alike])
            result += _reduced(tuple(row for row, _ in alike), stack, samples=self.samples)
        return result


def _reduced(rows: tuple[int, ...], x: Tensor, *, samples: int) -> Iterator[Pending]:
    """Mean, deviation, variety and dead units of outputs along the first axis."""
    std, mean = torch.std_mean(x.flatten(1), dim=1, correction=0)
    yield Pending(rows, "mean", (mean,), float)
    yield Pending(rows, "std", (std,), float)
    few = x[:, :samples]
    if few.ndim < 3 or few.shape[1] < 2:
        return
    variance, mean = torch.var_mean(few, dim=1, correction=0)
    sizes = variance.flatten(1).sum(1), torch.linalg.vector_norm(mean.flatten(1), dim=1)
    yield Pending(rows, "variety", sizes, _variety_of)
    axes = (1, 3, 4) if few.ndim == 5 else tuple(range(1, few.ndim - 1))
    high, low = few.amax(axes).flatten(1), few.amin(axes).flatten(1)
    constant = (high == low).sum(1)
    yield Pending(rows, "dead", (constant,), partial(_fraction_of, max(1, high.shape[1])))


def _variety_of(variance: float, mean: float) -> float:
    """Fraction of the energy in which rows differ from their mean."""
    whole = variance + mean * mean
    return variance / whole if whole else math.nan


def _fraction_of(whole: int, part: float) -> float:
    return part / whole
