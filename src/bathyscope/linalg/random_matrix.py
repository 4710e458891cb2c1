"""What random-matrix theory expects of Gaussian matrices, their products and their powers.

Predictions to lay beside measured spectra: of one matrix (extreme singular values), of m factors
as n → ∞ (Fuss–Catalan law) and of m → ∞ factors at fixed n (Lyapunov exponents).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, erfc

from bathyscope.core.errors import UsageError

# Mean of the Tracy–Widom law of real matrices (β = 1).
_TRACY_WIDOM_MEAN = -1.2065335745820

# E[√n σ_min] of a square real Gaussian matrix as n → ∞: √(eπ/2)·erfc(1/√2), the mean of
# Edelman's limit law with density (1 + t)·exp(-t²/2 - t).
_SQUARE_SMALLEST = math.sqrt(math.e * math.pi / 2) * float(erfc(math.sqrt(0.5)))


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


def expected_extremes(rows: int, columns: int, *, std: float = 1.0) -> Extremes:
    """Expected extreme singular values of a Gaussian matrix, to a few per cent from ten rows on.

    The edges of the Marchenko–Pastur law with the Tracy–Widom shift of their fluctuation:
    E σ_max² ≈ (√z + √s)² − 1.2065 (√z + √s)(1/√s + 1/√z)^(1/3) with s and z lowered by ½, and
    likewise, for log σ_min², at the lower edge. There it needs room: a square matrix has
    E σ_min ≈ 0.6557/√n (Edelman), one more column E σ_min = √(π/2n), since nσ²/2 is exponential.

    Examples:
        >>> round(expected_extremes(100, 100).smallest, 6)
        0.065568
    """
    short, long = _sides(rows, columns)
    if short == 1:  # the length of a Gaussian vector
        length = std * math.sqrt(2) * math.exp(math.lgamma((long + 1) / 2) - math.lgamma(long / 2))
        return Extremes(length, length)
    s, z = math.sqrt(short - 0.5), math.sqrt(long - 0.5)
    upper = (s + z) ** 2 + _TRACY_WIDOM_MEAN * (s + z) * (1 / s + 1 / z) ** (1 / 3)
    if short == long:
        smallest = _SQUARE_SMALLEST / math.sqrt(short)
    elif short + 1 == long:
        smallest = math.sqrt(math.pi / (2 * short))
    else:
        shift = -_TRACY_WIDOM_MEAN * (1 / s - 1 / z) ** (1 / 3) / (z - s)
        smallest = (z - s) * math.exp(shift / 2)
    return Extremes(std * smallest, std * math.sqrt(upper))


def fuss_catalan_moment(order: int, *, factors: int) -> float:
    """Moment of the squared singular values of a product of Gaussian matrices.

    lim (1/n) E tr (YYᵀ)^k = C(mk + k, k) / (mk + 1), where Y is the product of m independent
    n × n matrices, or the m-th power of one, with entries of variance 1/n
    (singularity, lemma 1). It holds at fixed m as n → ∞.

    Examples:
        >>> [fuss_catalan_moment(k, factors=1) for k in (1, 2, 3)]  # Catalan numbers
        [1.0, 2.0, 5.0]
    """
    _positive("factors", factors)
    return math.comb(factors * order + order, order) / (factors * order + 1)


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


def lyapunov_exponents(size: int, *, std: float = 1.0) -> np.ndarray:
    """Growth rates of the singular values of a product of many Gaussian matrices.

    lim (1/m) log σ_i(W^m ⋯ W^1) = ½(log 2 + ψ((n − i + 1)/2)) + log std for i = 1 … n: at fixed
    width n a product becomes of rank one at the rate of the first gap, however it is scaled
    (the collapse behind singularity, theorem 2).

    Examples:
        >>> lyapunov_exponents(2).round(4)
        array([ 0.058 , -0.6352])
    """
    _positive("size", size)
    _positive("std", std)
    order = np.arange(size, 0, -1)
    result: np.ndarray = 0.5 * (math.log(2) + digamma(order / 2)) + math.log(std)
    return result


def expected_log10_condition(size: int, *, factors: int) -> float:
    """Expected log₁₀ κ of a product of many Gaussian matrices of one size.

    m (λ_1 − λ_n) / log 10 with the Lyapunov exponents λ, whatever the variance; right to leading
    order in m at fixed n.

    Examples:
        >>> round(expected_log10_condition(64, factors=164))
        193
    """
    exponents = lyapunov_exponents(size)
    return factors * float(exponents[0] - exponents[-1]) / math.log(10)


def _sides(rows: int, columns: int) -> tuple[int, int]:
    _positive("rows", rows)
    _positive("columns", columns)
    return min(rows, columns), max(rows, columns)


def _positive(name: str, value: float | int) -> None:
    if not value > 0:
        raise UsageError(f"`{name}` must be positive, but {value} was given.")
