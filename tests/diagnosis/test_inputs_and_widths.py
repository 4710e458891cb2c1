"""Planted: copies among columns and samples, layers too narrow for the classes, maps in a row, wild rates."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import Severity
from bathyscope.diagnosis import diagnose


def table(samples=64, columns=6, classes=10):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(samples, columns, generator=generator)
    return x, torch.arange(samples) % classes


def mlp(columns, *widths, outputs=10):
    torch.manual_seed(0)
    layers = []
    for width in widths:
        layers += [nn.Linear(columns, width), nn.ReLU()]
        columns = width
    return nn.Sequential(*layers, nn.Linear(columns, outputs))


def severities(model, batch, code, **options):
    result = diagnose(model, batch, loss=F.cross_entropy, **options).findings
    return [(f.severity, f.evidence) for f in result if f.code == code]


@pytest.mark.parametrize(
    ("copies", "severity"), [(0, None), (1, Severity.NOTE), (4, Severity.WARNING)]
)
def test_columns_that_equal_another_are_counted(copies, severity):
    x, y = table()
    x[:, 1 : 1 + copies] = x[:, :1]
    result = severities(mlp(6, 16), (x, y), "repeated-columns")
    assert [s for s, _ in result] == ([] if severity is None else [severity])
    if severity:
        assert result[0][1]["repeated_columns"] == copies


def test_columns_of_one_value_are_constant_and_no_copies_of_one_another():
    x, y = table()
    x[:, 2:5] = 1.0
    assert severities(mlp(6, 16), (x, y), "repeated-columns") == []
    assert severities(mlp(6, 16), (x, y), "constant-columns")[0][1]["constant_columns"] == 3


@pytest.mark.parametrize(("different", "result"), [(64, False), (32, False), (16, True)])
def test_a_batch_most_of_which_is_copies(different, result):
    x, y = table()
    x, y = x[torch.arange(64) % different], y[torch.arange(64) % different]
    outcome = severities(mlp(6, 16), (x, y), "repeated-samples")
    assert bool(outcome) is result
    assert not outcome or outcome[0][1]["repeated_fraction"] == 1 - different / 64


@pytest.mark.parametrize(
    ("width", "classes", "severity"),
    [
        (1, 10, Severity.WARNING),
        (1, 50, Severity.PROBLEM),
        (3, 10, Severity.WARNING),
        (4, 10, None),
        (1, 2, None),
        (5, 50, Severity.WARNING),
        (6, 50, None),
    ],
)
def test_a_width_below_the_bits_of_a_class(width, classes, severity):
    model = mlp(6, 32, width, 32, outputs=classes)
    result = severities(model, table(classes=classes), "narrow-width")
    assert [s for s, _ in result] == ([] if severity is None else [severity])
    if severity:
        assert result[0][1]["width"] == width


def test_a_narrow_gate_beside_the_trunk_is_none_of_it():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.gate, self.head = nn.Linear(6, 32), nn.Linear(32, 1), nn.Linear(32, 10)

        def forward(self, x):
            x = self.stem(x).relu()
            return self.head(x * self.gate(x).sigmoid())

    torch.manual_seed(0)
    assert severities(Gated(), table(), "narrow-width") == []


def bare(*activations):
    torch.manual_seed(0)
    parts = [part for act in activations for part in (nn.Linear(16, 16), act)]
    return nn.Sequential(nn.Linear(6, 16), *parts, nn.Linear(16, 10))


@pytest.mark.parametrize(
    ("model", "severity"),
    [
        (bare(nn.Identity(), nn.Identity(), nn.Identity()), Severity.PROBLEM),
        (bare(nn.Identity(), nn.ReLU(), nn.Identity()), Severity.WARNING),
        (bare(nn.ReLU(), nn.ReLU(), nn.ReLU()), Severity.NOTE),  # the stem has none of its own
    ],
)
def test_maps_in_a_row_weigh_by_their_fraction(model, severity):
    assert [s for s, _ in severities(model, table(), "linear-network")] == [severity]
    whys = [f.why for f in diagnose(model, table()).findings if f.code == "linear-network"]
    assert ["the network is a single linear map" in why for why in whys] == [
        severity is Severity.PROBLEM
    ]


@pytest.mark.parametrize(
    ("times", "severity"), [(3, None), (30, Severity.WARNING), (3000, Severity.PROBLEM)]
)
def test_a_rate_weighs_by_how_far_it_lies_above_the_stable_one(times, severity):
    model, batch = mlp(6, 32, 32), table()
    first = severities(
        model, batch, "unstable-rate",
        probes="full", optimizer=torch.optim.SGD(model.parameters(), lr=1e4),
    )  # fmt: skip
    stable = first[0][1]["stable_rate"]
    optimizer = torch.optim.SGD(model.parameters(), lr=times * stable)
    result = severities(model, batch, "unstable-rate", probes="full", optimizer=optimizer)
    assert [s for s, _ in result] == ([] if severity is None else [severity])
