"""Why a check was not made, said as it is."""

import pytest
import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.diagnosis import diagnose

RULE = "loss-does-not-fall"


def case():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    return model, torch.randn(32, 8), torch.arange(32) % 3


def test_with_full_probes_no_reason_asks_for_them():
    model, x, y = case()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    full = diagnose(model, x, y, optimizer=optimizer, probes="full", steps=2)
    report = full.report()
    assert RULE in {*report.passed, *(finding.code for finding in report.findings)}
    assert not any("probes" in reason for reason in report.not_checked.values())
    without = diagnose(model, x, y, probes="full", steps=2).report()
    assert without.not_checked[RULE] == "no optimizer was given"
    assert "probes" in diagnose(model, x, y).report().not_checked[RULE]


def test_a_reason_to_silence():
    model, x, y = case()
    with torch.no_grad():
        model[0].bias.fill_(-100.0)
    given = diagnose(model, x, y, silence={"dead-units": "meant", "labels": ""})
    assert given.report().not_checked["dead-units"] == "silenced: meant"
    assert [finding.code for finding in given.silenced] == ["dead-units"]
    assert (
        diagnose(model, x, y, silence=["dead-units"]).report().not_checked["dead-units"]
        == "silenced"
    )
    with pytest.raises(UsageError, match="maps codes to reasons"):
        diagnose(model, x, y, silence={"dead-units": 3})
