"""Features of a course: curves over the learning rates that were spent; probabilities of outcomes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from bathyscope.core.rate_plan import RatePlan
from bathyscope.foresight.course import FirstSteps, TrainingPlan, take_course
from bathyscope.foresight.curve_features import _along_rates, _gap, _slope, baseline_of
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


def test_falls_needed_counts_how_often_the_fall_so_far_is_still_to_come():
    curve = np.linspace(1.0, 0.5, 41)
    seen = _gap(curve)
    now = float(curve[-10:].mean())
    fallen = float(curve[:3].mean()) - now
    assert seen["fallen"] == pytest.approx(fallen)
    assert seen["falls needed"] == pytest.approx((now + 0.05) / fallen)
    assert seen["above best"] == pytest.approx(now - 0.5)
    assert _gap(-curve[::-1])["falls needed"] < 0  # below the baseline: none is needed
    assert set(map(math.isfinite, _gap(np.array([0.3])).values())) == {True}


def course(losses, *, baseline):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [(torch.randn(8, 2), torch.randn(8, 1))]
    plan = TrainingPlan(100, RatePlan(((0.1,),) * 100))
    taken: FirstSteps = take_course(
        model, batches, loss=nn.functional.mse_loss, optimizers=[optimizer], plan=plan, steps=2
    )
    return replace(taken, losses=tuple(losses), baseline=baseline)


def test_a_reward_beyond_its_small_baseline_has_the_scale_of_what_was_gained():
    constant, scale = baseline_of(course([0.0, -0.1, -0.2, -0.3], baseline=-0.001))
    assert constant == -0.001
    assert scale == pytest.approx(2 * (0.2 - 0.001))
    # what cannot be negative keeps the size of its baseline, and so does what gained little
    assert baseline_of(course([2.0, 1.0, 0.1, 0.0], baseline=1.0)) == (1.0, 1.0)
    assert baseline_of(course([-0.5, -0.5, -0.6, -0.6], baseline=-0.5)) == (-0.5, 0.5)
