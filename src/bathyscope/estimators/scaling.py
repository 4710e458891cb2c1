"""Standardization inside an estimator: any units, any offsets, constant columns."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# A column whose spread is this small beside its size is constant but for rounding.
_ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Scaling:
    """(X − mean) / scale, column by column; a constant column becomes zero."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, X: Array, weights: Array) -> "Scaling":
        """Weighted mean and standard deviation, without overflow for columns near the largest float.

        Examples:
            >>> X = np.array([[1e200, 5.0], [3e200, 5.0]])
            >>> Scaling.of(X, np.array([0.5, 0.5])).apply(X).round(12).tolist()
            [[-1.0, 0.0], [1.0, 0.0]]
        """
        # Halves, as differences of the largest floats overflow; from a row, as those of close
        # numbers are exact, whatever their common offset.
        halves = 0.5 * X - 0.5 * X[0]
        size = np.abs(halves).max(axis=0)
        size[size == 0] = 1.0
        relative = halves / size
        mean = weights @ relative
        mean = mean + weights @ (relative - mean)  # takes up the rounding of the first sum
        spread = 2 * (size * np.sqrt(weights @ (relative - mean) ** 2))
        center = X[0] + size * mean + size * mean
        constant = spread <= _ROUNDING * np.abs(X).max(axis=0)
        return cls(center, np.where(constant, np.inf, spread))

    def apply(self, X: Array) -> Array:
        """Standardized columns."""
        with np.errstate(over="ignore"):  # far outside the data seen, near the largest float
            return (X - self.mean) / self.scale

    def invert(self, Z: Array) -> Array:
        """Back to the units of the data; of a constant column, its value."""
        return Z * np.where(np.isinf(self.scale), 0.0, self.scale) + self.mean
