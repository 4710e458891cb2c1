"""Differences between means of seeds, with their error, against numpy and at their bounds."""

import math

import numpy as np
import pandas as pd
import pytest

from bathyscope.studies.depth_curve import slope_check, slope_over_depth
from bathyscope.studies.sampling import MeanDifference, difference_of_means


def test_the_error_is_that_of_two_independent_means():
    generator = np.random.default_rng(0)
    first, second = generator.normal(2.0, 1.0, 5), generator.normal(1.0, 3.0, 9)
    result = difference_of_means(pd.Series(first), pd.Series(second))
    assert result.value == pytest.approx(first.mean() - second.mean())
    wanted = math.sqrt(first.var(ddof=1) / 5 + second.var(ddof=1) / 9)
    assert result.error == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("value", "error", "clear"),
    [
        (0.21, 0.1, True),
        (0.19, 0.1, False),
        (-1.0, 0.1, False),
        (1e-9, math.nan, True),
        (0.0, math.nan, False),
        (math.inf, math.nan, True),
        (math.nan, math.nan, False),
    ],
)
def test_two_errors_make_a_difference_clear(value, error, clear):
    assert MeanDifference(value, error).is_clear is clear


def test_one_seed_and_one_that_diverged_have_no_error():
    assert str(difference_of_means(pd.Series([2.0]), pd.Series([1.0]))) == "1"
    diverged = difference_of_means(pd.Series([math.inf, 1.0]), pd.Series([1.0, 2.0]))
    assert str(diverged) == "inf"


def curve(exponent, *, noise):
    generator = np.random.default_rng(1)
    return pd.DataFrame(
        [
            {"kind": "a", "depth": d, "seed": s, "value": d**exponent * (1 + noise * z)}
            for d in (4, 16, 64)
            for s, z in enumerate(generator.normal(size=20))
        ]
    )


def test_the_error_of_an_exponent_is_its_standard_deviation_over_sets_of_seeds():
    generator = np.random.default_rng(2)
    noisy = [
        curve(1.0, noise=0.0).assign(value=lambda t: t["value"] * generator.uniform(0.5, 1.5, 60))
        for _ in range(200)
    ]
    slopes = [slope_over_depth(table, "a") for table in noisy]
    check = slope_check("rises", noisy[0], "a", above=0.0)
    error = float(str(check.value).rpartition("± ")[2])
    assert error == pytest.approx(np.std(slopes), rel=0.5)


@pytest.mark.parametrize(("exponent", "met"), [(0.9, True), (0.5, False), (1.3, False)])
def test_an_exponent_has_to_lie_between_its_bounds(exponent, met):
    check = slope_check("rises", curve(exponent, noise=0.0), "a", above=0.7, below=1.2)
    assert check.passed is met
    # the distance from the nearer bound: negative beyond it
    margin = min(exponent - 0.7, 1.2 - exponent)
    assert f", {margin:.2g} ±" in str(check.value)


def test_an_exponent_without_bounds_is_reported():
    assert slope_check("early", curve(0.5, noise=0.0), "a").passed is None
