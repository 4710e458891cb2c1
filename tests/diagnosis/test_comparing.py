from dataclasses import replace

import pytest
import torch
from torch import nn

import bathyscope as bs
from bathyscope.diagnosis import compare
from bathyscope.diagnosis.compare import Contender
from bathyscope.report import from_json, to_json
from tests.support.model_state import assert_same, state_of


def batches(count):
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(32, 8, generator=generator) for _ in range(count)]
    return [(x, x[:, :4].argmax(1)) for x in inputs]


@pytest.fixture(scope="module")
def course():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    before = state_of(model)
    (result,) = compare(
        [Contender("mlp", model, optimizer)], batches(24), loss=nn.functional.cross_entropy
    )
    assert_same(before, state_of(model))
    return result


def test_the_forecast_is_made_before_the_training_and_told_with_it(course):
    assert course.forecast.spent <= 8
    assert course.forecast.budget == 100
    report = course.report()
    assert report.forecast == course.forecast
    assert from_json(to_json(report)).forecast == course.forecast


@pytest.mark.parametrize(
    ("verdict", "accuracy", "steps", "came_true"),
    [
        ("trains", 0.9, 24, "yes"),
        ("trains", 0.6, 24, "not yet"),
        ("trains", 0.6, 300, "no"),
        ("fails", 0.3, 24, "yes"),
        ("fails", 0.9, 300, "no"),
        ("undecided", 0.9, 300, "open"),
        ("trains", None, 300, "open"),
    ],
)
def test_whether_it_came_true(course, verdict, accuracy, steps, came_true):
    seen = replace(course.forecast, verdict=verdict)
    later = replace(course, forecast=seen, accuracy=accuracy, losses=(1.0,) * steps)
    assert later.came_true == came_true


def test_full_probes_tell_the_forecast(capsys):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    result = bs.diagnose(model, batches(1)[0], probes="full", steps=8)
    assert result.forecast is not None
    assert "1 batch for" in result.forecast.notes[0]
    result.show()
    assert "forecast: Within 300 steps" in capsys.readouterr().out
    assert bs.diagnose(model, batches(1)[0]).forecast is None


def test_one_that_fails_is_treated_on_a_copy_and_trains():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)  # nothing moves
    before = state_of(model)
    (result,) = compare(
        [Contender("mlp", model, optimizer)],
        batches(24),
        loss=nn.functional.cross_entropy,
        treat_with=batches(200),
    )
    assert_same(before, state_of(model))
    assert result.has_failed
    assert result.treatment.helped
    cured = result.treated_report()
    assert cured.title == "mlp, treated"
    assert "It helped" in cured.outcome
    assert cured.code
    losses = [loss for _, loss in cured.curves["training loss"]]
    assert losses[-1] < 0.6 * result.losses[-1]
    assert result.outcome.startswith("After 24 steps: loss ")


def test_one_that_does_not_fail_is_left_alone(course):
    assert not course.has_failed
    assert course.treatment is None
    assert course.treated_report() is None
    assert replace(course, accuracy=0.3).has_failed
    assert replace(course, losses=(1.0, float("inf"))).has_failed
