"""Extrapolations are right where the curve is of their own shape, and finite where it is not."""

import numpy as np
import pytest

from bathyscope.foresight.extrapolation import (
    HIGHEST,
    LOWEST,
    METHODS,
    absolute_loss,
    exponential,
    logarithm,
    power_law,
    relative_losses,
    window_means,
)

BUDGET = 1000
steps = np.arange(1, BUDGET + 1)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.8])
def test_power_law_finds_a_power_law(rate: float) -> None:
    curve = -0.8 + 0.9 * steps**-rate
    said = power_law(curve[:100], BUDGET)
    assert said == pytest.approx(curve[-50:].mean(), abs=0.03)


def test_exponential_finds_an_exponential() -> None:
    curve = -0.6 + 0.6 * np.exp(-steps / 60)
    assert exponential(curve[:150], BUDGET) == pytest.approx(-0.6, abs=0.02)


def test_logarithm_finds_a_logarithm() -> None:
    curve = -0.08 * np.log(steps)
    assert logarithm(curve[:100], BUDGET) == pytest.approx(curve[-50:].mean(), abs=0.02)


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_no_method_leaves_the_range(method) -> None:
    random = np.random.default_rng(0)
    for length in (12, 40, 400):
        for curve in (
            np.zeros(length),
            np.full(length, HIGHEST),
            random.uniform(LOWEST, HIGHEST, length),
            np.linspace(0, HIGHEST, length),
        ):
            assert LOWEST <= method(curve, BUDGET) <= HIGHEST


def test_a_flat_curve_stays_where_it_is() -> None:
    for method in METHODS.values():
        assert method(np.full(100, -0.3), BUDGET) == pytest.approx(-0.3, abs=1e-6)


def test_relative_losses() -> None:
    found = relative_losses(np.array([2.3, 1.15, np.nan, np.inf, 1e30, 4.6]), 2.3, 2.3)
    assert found == pytest.approx([0, -0.5, HIGHEST, HIGHEST, HIGHEST, np.log(2)])
    assert np.all(np.diff(relative_losses(np.geomspace(1, 1e6, 50), 2.3, 2.3)) > 0)


@pytest.mark.parametrize("loss", [-0.5, 0.01, 2.3, 2.4, 40.0, 1e4])
def test_an_absolute_loss_is_the_one_that_a_relative_one_was_made_of(loss: float) -> None:
    relative = relative_losses(np.array([loss]), 2.3, 2.0)[0]
    assert absolute_loss(relative, 2.3, 2.0) == pytest.approx(loss, abs=1e-9)


def test_windows_cover_every_step_once() -> None:
    for length in (12, 13, 500):
        at, means = window_means(np.arange(1.0, length + 1), 10)
        assert means == pytest.approx(at)
        assert at[0] == 1
