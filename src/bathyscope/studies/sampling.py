"""Errors of what is counted on samples, so that one image does not decide a comparison."""

import math

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


def num_test_images(name: str, kept: int | None) -> int:
    """The test images of a data set, or as many as are kept of them."""
    return kept or data.entry(name).num_test
