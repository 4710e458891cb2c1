"""Features of a course: curves over the learning rates that were spent; probabilities of outcomes."""

import numpy as np
import pytest

from bathyscope.foresight.curve_features import _along_rates, _slope
from bathyscope.foresight.curve_model import OUTCOMES, standard_curve_model


def factors(budget, warm_up):
    rise = np.minimum(1.0, np.arange(1, budget + 1) / warm_up)
    return rise * (1 + np.cos(np.pi * np.arange(budget) / budget)) / 2


@pytest.mark.parametrize("warm_up", [1, 50])
def test_a_curve_that_is_straight_over_the_rates_is_continued_to_its_end_whatever_the_schedule(
    warm_up,
):
    of_steps = factors(400, warm_up)
    spent = np.concatenate([[0.0], np.cumsum(of_steps)]) / of_steps.sum()
    curve = 0.2 - 0.7 * spent[:60]
    result = _along_rates(curve, of_steps)
    for part in ("most", "the last half", "the last quarter"):
        assert result[f"linear over {part} of the rates"] == pytest.approx(0.2 - 0.7, abs=1e-9)


def test_a_curve_over_the_logarithm_of_the_rates_is_continued_to_its_end():
    of_steps = factors(400, 10)
    spent = np.concatenate([[0.0], np.cumsum(of_steps)]) / of_steps.sum()
    curve = -0.1 * np.log(spent[:60] + spent[1] / 2) - 0.3
    result = _along_rates(curve, of_steps)["logarithmic over the last quarter of the rates"]
    # the mean of a logarithm is not the logarithm of a mean
    assert result == pytest.approx(-0.3, abs=0.01)


def test_rates_that_are_all_zero_and_one_step_give_the_loss_itself():
    flat = _along_rates(np.array([0.5, 0.5, 0.5, 0.5]), np.zeros(100))
    assert set(flat.values()) == {0.5}
    one = _along_rates(np.array([0.5]), np.ones(100))
    assert set(one.values()) == {0.5}


def test_a_slope_is_that_of_least_squares():
    generator = np.random.default_rng(0)
    times, losses = generator.random(20), generator.random(20)
    assert _slope(times, losses) == pytest.approx(np.polyfit(times, losses, 1)[0])
    assert _slope(np.zeros(5), losses[:5]) == 0.0


def test_probabilities_of_the_outcomes_are_those_of_two_forests_and_sum_to_one():
    model = standard_curve_model()
    generator = np.random.default_rng(1)
    for _ in range(5):
        row = model.center + model.scale * generator.standard_normal(len(model.names))
        chance = dict(zip(OUTCOMES, model.chance(row), strict=True))
        fails, lags = (float(model.forests[name].predict(row)[0]) for name in ("fails", "lags"))
        assert chance["fails"] == pytest.approx(fails)
        assert chance["lags"] == pytest.approx((1 - fails) * lags)
        assert sum(chance.values()) == pytest.approx(1)
