"""The samples an estimator learns from: each once, with its weight, in an order of their own."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bathyscope.estimators.scaling import Array


@dataclass(frozen=True)
class Samples:
    """Inputs, targets and weights that sum to one."""

    X: Array
    Y: npt.NDArray[np.generic]
    weights: Array

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: npt.NDArray[np.intp]) -> "Samples":
        """Some of the samples, with their weights made to sum to one again."""
        weights = self.weights[rows]
        return Samples(self.X[rows], self.Y[rows], weights / weights.sum())


def merge_samples(X: Array, Y: npt.NDArray[np.generic], weights: Array) -> Samples:
    """Distinct samples in an order that depends on their values alone; weights of equals are added.

    A sample given twice is then the same as one of weight two, a sample of weight zero is none, and
    the order in which samples are given does not matter.

    Examples:
        >>> X = np.array([[2.0], [1.0], [2.0], [3.0]])
        >>> found = merge_samples(X, np.array([0, 1, 0, 1]), np.array([1.0, 1.0, 1.0, 0.0]))
        >>> sorted(zip(found.X[:, 0].tolist(), found.Y.tolist(), found.weights.round(3).tolist()))
        [(1.0, 1, 0.333), (2.0, 0, 0.667)]
    """
    present = weights > 0
    X, Y, weights = X[present] + 0.0, Y[present], weights[present]  # + 0.0 turns −0 into 0
    rows = np.ascontiguousarray(np.column_stack([X, Y.reshape(len(Y), -1).astype(np.float64)]))
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    summed = np.bincount(inverse.ravel(), weights=weights)
    return Samples(X[first], Y[first], summed / summed.sum())


def split(
    samples: Samples, *, fraction: float, labels: npt.NDArray[np.generic] | None, seed: int
) -> tuple[Samples, Samples] | None:
    """Samples to learn from and to validate on; None where there are too few for both.

    Args:
        samples: all of them.
        fraction: to validate on.
        labels: classes to keep in proportion, or None; a class of one sample stays in the first part.
        seed: decides which.
    """
    rng = np.random.default_rng(seed)
    groups = np.zeros(len(samples), dtype=np.intp) if labels is None else labels
    held: list[int] = []
    for rows in _group(groups):
        rows = rng.permutation(rows)
        count = int(np.floor(fraction * len(rows) + rng.uniform()))
        held.extend(rows[: min(count, len(rows) - 1)].tolist())
    if len(held) < _FEWEST or len(samples) - len(held) < _FEWEST:
        return None
    mask = np.zeros(len(samples), dtype=bool)
    mask[held] = True
    return samples.take(np.flatnonzero(~mask)), samples.take(np.flatnonzero(mask))


_FEWEST = 8  # below this a validation says nothing


def _group(groups: npt.NDArray[np.generic]) -> Iterator[npt.NDArray[np.intp]]:
    _, inverse = np.unique(groups, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)
