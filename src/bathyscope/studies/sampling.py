"""Errors of what is counted on samples, so that one image does not decide a comparison."""

import math
from dataclasses import dataclass

import pandas as pd

from bathyscope import data


def difference_error(first: float, second: float, num_samples: int) -> float:
    """Standard error of the difference of two shares, each of this many samples: √(2 p(1 − p)/n).

    p is the mean of the two.

    Examples:
        >>> round(difference_error(0.05, 0.05, 355), 4)
        0.0164
    """
    middle = (first + second) / 2
    return math.sqrt(2 * middle * (1 - middle) / num_samples)


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """By how much the mean of one set of seeds is above that of another.

    Attributes:
        value: of the two means; infinite where the first diverged.
        error: standard error √(s₁²/n₁ + s₂²/n₂); NaN where one of them has one seed.
    """

    value: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Positive, and where there are seeds to tell by more than twice the error."""
        return self.value > (0.0 if math.isnan(self.error) else 2 * self.error)

    def __str__(self) -> str:
        shown = f"{self.value:.3g}"
        return shown if math.isnan(self.error) else f"{shown} ± {self.error:.1g}"


def difference_of_means(first: "pd.Series[float]", second: "pd.Series[float]") -> MeanDifference:
    """The first mean less the second, over the seeds of each.

    Examples:
        >>> str(difference_of_means(pd.Series([2.0, 4.0]), pd.Series([1.0, 1.0])))
        '2 ± 1'
    """
    value = float(first.mean() - second.mean())
    if not math.isfinite(value):
        return MeanDifference(value, math.nan)
    return MeanDifference(value, math.hypot(float(first.sem()), float(second.sem())))


def num_test_images(name: str, kept: int | None) -> int:
    """The test images of a data set, or as many as are kept of them."""
    return kept or data.entry(name).num_test
