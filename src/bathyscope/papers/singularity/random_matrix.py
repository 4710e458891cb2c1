"""What random-matrix theory expects of Gaussian matrices and their products.

Predictions to lay beside measured spectra: of one matrix (extreme singular values) and of m factors
as n → ∞ (Fuss–Catalan law).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bathyscope.core.errors import UsageError


class Extremes(NamedTuple):
    """Expected smallest and largest singular value."""

    smallest: float
    largest: float

    @property
    def condition_number(self) -> float:
        """The ratio of the two expectations, which is not the expectation of the ratio."""
        return self.largest / self.smallest if self.smallest > 0 else math.inf


def extreme_bounds(rows: int, columns: int, *, std: float = 1.0) -> Extremes:
    """Bounds on the expected extreme singular values of a Gaussian matrix.

    √z − √s ≤ E σ_min ≤ E σ_max ≤ √z + √s for s ≤ z   (singularity, theorem 5).

    Examples:
        >>> extreme_bounds(4, 9)
        Extremes(smallest=1.0, largest=5.0)
    """
    short, long = _sides(rows, columns)
    root_short, root_long = math.sqrt(short), math.sqrt(long)
    return Extremes(std * (root_long - root_short), std * (root_long + root_short))


def fuss_catalan_quantiles(
    probabilities: Sequence[float] | np.ndarray, *, factors: int, points: int = 20_000
) -> np.ndarray:
    """Quantiles of the limit law of the singular values of a product of Gaussian matrices.

    With 0 < φ < π/(m + 1), the squared singular values have
    x(φ) = sin^(m+1)((m+1)φ) / (sin φ sin^m(mφ)), falling from (m+1)^(m+1)/m^m to 0, and density
    ρ(φ) = sin²φ sin^(m−1)(mφ) / (π sin^m((m+1)φ))   (singularity, lemma 1).

    Args:
        probabilities: in [0, 1].
        factors: m, the number of matrices or the power.
        points: of the grid on which the distribution function is summed.

    Returns:
        Singular values, one for each probability, for entries of variance 1/n.

    Raises:
        UsageError: for a probability outside [0, 1] or fewer than one factor.

    Examples:
        >>> fuss_catalan_quantiles([0.0, 1.0], factors=1)
        array([0., 2.])
    """
    _positive("factors", factors)
    wanted = np.asarray(probabilities, dtype=float)
    if wanted.size and not (wanted.min() >= 0 and wanted.max() <= 1):
        raise UsageError(f"Probabilities lie in [0, 1], but {list(probabilities)} was given.")
    m = factors
    # Cosine spacing crowds the points at both ends, where the density has its edges.
    phi = (1 - np.cos(np.linspace(0, np.pi, points + 2)[1:-1])) / 2 * np.pi / (m + 1)
    squared = np.sin((m + 1) * phi) ** (m + 1) / (np.sin(phi) * np.sin(m * phi) ** m)
    density = np.sin(phi) ** 2 * np.sin(m * phi) ** (m - 1) / (np.pi * np.sin((m + 1) * phi) ** m)
    mass = (density[1:] + density[:-1]) / 2 * -np.diff(squared)
    below = 1 - np.concatenate([[0.0], np.cumsum(mass)]) / mass.sum()
    edge = (m + 1.0) ** (m + 1) / float(m) ** m
    below = np.concatenate([[1.0], below[1:-1], [0.0]])
    values = np.concatenate([[edge], squared[1:-1], [0.0]])
    result: np.ndarray = np.sqrt(np.interp(wanted, below[::-1], values[::-1]))
    return result


def _sides(rows: int, columns: int) -> tuple[int, int]:
    _positive("rows", rows)
    _positive("columns", columns)
    return min(rows, columns), max(rows, columns)


def _positive(name: str, value: float | int) -> None:
    if not value > 0:
        raise UsageError(f"`{name}` must be positive, but {value} was given.")
