import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import nets
from bathyscope.core.stepping import copy_training
from bathyscope.diagnosis import diagnose, events_of
from bathyscope.foresight import forecast, look_ahead
from tests.diagnosis.networks import batch
from tests.support.model_state import assert_same, state_of


def test_a_deep_plain_network_explodes_before_it_is_singular():
    """At the start it looks healthy but for its gradient; after some steps its weights and
    representations are ruined. The order of events must say so."""
    torch.manual_seed(0)
    model, given = nets.build("plain-74", in_channels=1), batch(size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = state_of(model)
    result = diagnose(model, given, optimizer=optimizer, probes="full", steps=3)
    assert_same(before, state_of(model))
    assert [step for step, _ in result.stages] == [0, 1, 3]
    assert result.findings[0].code == "exploding-gradient"
    assert result.findings[0].evidence["cumulative_gradient_ratio"] < 1e-3
    steps = {event.finding.code: event.step for event in events_of(result)}
    assert steps["exploding-gradient"] == 0
    assert steps["singular-representation"] >= 1
    start = dict(result.stages)[0]
    conditions = start.measurements["representations"]["condition_samples"]
    assert max(c for c in conditions if c is not None) < 1e4
    assert "deletion" in result.measurements


def test_a_healthy_network_has_a_look_ahead_without_events():
    torch.manual_seed(0)
    model = nets.build("prebasic-14", in_channels=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    result = diagnose(model, batch(size=32), optimizer=optimizer, probes="full", steps=3)
    assert [e.finding.code for e in events_of(result) if e.finding.severity == "problem"] == []


def dropping(seed=0):
    """Draws random numbers in every pass and writes to its buffers: steps that are disturbed differ."""
    torch.manual_seed(seed)
    layers = [nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3)]
    return nn.Sequential(*layers, nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


def labeled():
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    return x, x[:, :3].argmax(1)


@pytest.mark.parametrize("steps", [1, 8, 9])
def test_the_forecast_of_a_full_diagnosis_is_that_of_a_forecast_on_the_same_batch(steps):
    model, optimizer = dropping(), None
    for budget in (None, 40):
        result = diagnose(
            model, labeled(), optimizer=optimizer, probes="full", steps=steps, budget=budget
        )
        alone = forecast(
            model, [labeled()], loss=F.cross_entropy, budget=budget or 300, spend=steps
        )
        assert result.forecast == alone


def test_stages_are_those_of_steps_that_nobody_reads():
    model = dropping()
    result = diagnose(model, labeled(), probes="full", steps=10)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    again = diagnose(model, labeled(), probes="full", steps=10)
    torch.set_rng_state(state)
    twin, stepper = copy_training(model, None)
    losses = [
        diagnose(twin, labeled(), optimizer=stepper).provenance["loss"]
        for _ in look_ahead(twin, stepper, [labeled()] * 10, loss=F.cross_entropy, at=(1, 10))
    ]
    assert [stage.provenance["loss"] for _, stage in again.stages[1:]] == losses
    assert result.provenance["loss"] != again.provenance["loss"]  # other numbers were drawn
