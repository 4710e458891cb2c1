import torch

from bathyscope import nets
from bathyscope.diagnosis import diagnose, events_of
from tests.core.test_preserve import assert_same, state_of
from tests.diagnosis.networks import batch


def test_a_deep_plain_network_explodes_before_it_is_singular():
    """At the start it looks healthy but for its gradient; after some steps its weights and
    representations are ruined. The order of events must say so."""
    torch.manual_seed(0)
    model = nets.build("plain-74", in_channels=1)
    before = state_of(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = diagnose(model, batch(size=32), optimizer=optimizer, probes="full", steps=3)
    assert_same(before, state_of(model))
    assert [step for step, _ in found.stages] == [0, 1, 3]
    assert found.findings[0].code == "exploding-gradient"
    assert found.findings[0].evidence["factor"] > 1e3
    steps = {event.finding.code: event.step for event in events_of(found)}
    assert steps["exploding-gradient"] == 0
    assert steps["singular-representation"] >= 1
    start = dict(found.stages)[0]
    conditions = start.measurements["representations"]["condition_samples"]
    assert max(c for c in conditions if c is not None) < 1e4
    assert "deletion" in found.measurements


def test_a_healthy_network_has_a_look_ahead_without_events():
    torch.manual_seed(0)
    model = nets.build("prebasic-14", in_channels=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    found = diagnose(model, batch(size=32), optimizer=optimizer, probes="full", steps=3)
    assert [e.finding.code for e in events_of(found) if e.finding.severity == "problem"] == []
