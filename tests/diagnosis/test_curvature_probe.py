"""What `probes="full"` says of curvature, and two faults that only curvature shows."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import nets
from bathyscope.core import blocks_of
from bathyscope.curvature import hessian
from bathyscope.curvature.terms import HessianTerm
from bathyscope.diagnosis import diagnose, treat
from bathyscope.diagnosis.curvature_probe import curvature_probe

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(64, 6, generator=GENERATOR)
Y = X @ torch.randn(6, 6, generator=GENERATOR)


def shortcuts(length, *, scale):
    torch.manual_seed(0)
    model = nets.build(f"nshortcut-4-{length}", width=6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def codes(result):
    return [f.code for f in result.findings]


@pytest.fixture(scope="module")
def measured():
    model = shortcuts(2, scale=0.5).double()
    batch = (X.double(), Y.double())
    return curvature_probe(
        model, batch, loss=F.mse_loss, blocks=blocks_of(model, batch[0])
    ), hessian(model, batch, loss=F.mse_loss)


def test_the_ends_are_inside_the_spectrum_and_near_its_ends(measured):
    probe, matrix = measured
    truth = matrix.eigenvalues()
    largest, smallest = probe.settings["largest"], probe.settings["smallest"]
    span = float(truth[-1] - truth[0])
    assert -1e-9 <= float(truth[-1]) - largest <= 1e-2 * span
    assert -1e-9 <= smallest - float(truth[0]) <= 1e-2 * span
    assert probe.settings["products"] <= 15 + 4 + 48


def test_by_block_against_the_diagonal_blocks(measured):
    probe, matrix = measured
    dense = matrix.dense()
    for i in range(4):
        part = dense[72 * i : 72 * (i + 1), 72 * i : 72 * (i + 1)]
        values = torch.linalg.eigvalsh(part)
        span = float(values[-1] - values[0])
        assert probe["largest"][i] == pytest.approx(float(values[-1]), abs=0.05 * span)
        assert probe["smallest"][i] == pytest.approx(float(values[0]), abs=0.05 * span)
        # four probes: a t distribution with three degrees of freedom, within 13 in 999 of 1000
        assert abs(probe["trace"][i] - float(values.sum())) <= 13 * probe["trace_error"][i]


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_bounds_of_condition_number_and_index_hold_and_are_told(scale):
    model = shortcuts(2, scale=scale).double()
    batch = (X.double(), Y.double())
    probe = curvature_probe(model, batch, loss=F.mse_loss, blocks=blocks_of(model, batch[0]))
    values = hessian(model, batch, loss=F.mse_loss).eigenvalues()
    sizes = values.abs().sort().values
    truth = float(sizes[-1] / sizes[28].clamp_min(1e-12))  # 28 = ⌊0.1 (288 − 1)⌋
    assert 1 <= probe.settings["condition_number_at_least"] <= truth
    assert probe.settings["condition_number_at_least"] > 1.5  # and say something
    low, high = (probe.settings[f"negative_index_at_{end}"] for end in ("least", "most"))
    assert low <= float((values < 0).double().mean()) <= high
    assert "condition_number" not in probe.columns
    (note,) = [n for n in probe.notes if "288 eigenvalues" in n]
    assert f"at least about {probe.settings['condition_number_at_least']:.2g}" in note
    assert "by_block()" in note


def test_small_models_have_condition_number_and_index_by_block():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 6)).double()
    batch = (X[:, :3].double(), X.argmax(dim=1))
    probe = curvature_probe(model, batch, loss=F.cross_entropy, blocks=blocks_of(model, batch[0]))
    matrix = hessian(model, batch)
    assert probe.settings["negative_index"] == matrix.negative_index().fraction
    assert "condition_number_at_least" not in probe.settings
    truth = matrix.by_block()
    assert probe["condition_number"] == pytest.approx(truth["condition_number"])
    assert probe["negative_index"] == truth["negative_index"]
    assert probe["negative_index"][1] == 0.0  # the last layer of a convex loss
    if probe.settings["condition_number"] is None:
        assert any("zero to the precision" in note for note in probe.notes)


def test_a_start_that_is_flat_to_second_order_is_found_and_treated():
    """Theorem 2: at zero the Hessian vanishes for shortcuts of length 3, not for those of length 2."""
    model = shortcuts(3, scale=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    result = diagnose(model, (X, Y), loss=F.mse_loss, optimizer=optimizer, probes="full", steps=2)
    assert "flat-to-second-order" in codes(result)
    treatment = treat(model, result, optimizer=optimizer, allow=("settings", "weights"))
    assert treatment.helped
    assert treatment.level == "weights"


def test_an_ordinary_saddle_is_not_called_flat_to_second_order():
    model = shortcuts(2, scale=0.0)
    result = diagnose(model, (X, Y), loss=F.mse_loss, probes="full", steps=2)
    assert "flat-start" in codes(result)
    assert "flat-to-second-order" not in codes(result)
    assert result.measurements["curvature"].settings["smallest"] < 0


def test_a_rate_far_above_the_stable_one_is_named_with_the_stable_one_and_treated():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)
    )
    batch = (X, X[:, :4].argmax(dim=1))
    top = float(hessian(model, batch).extremes(1, ends="largest").largest.values)
    optimizer = torch.optim.SGD(model.parameters(), lr=50 * 3 / top, momentum=0.5)
    result = diagnose(model, batch, optimizer=optimizer, probes="full", steps=2)
    reported = next(f for f in result.findings if f.code == "unstable-rate")
    assert reported.evidence["stable_rate"] == pytest.approx(3 / top, rel=1e-2)
    assert f"{reported.evidence['stable_rate']:.2g}" in reported.remedy
    treatment = treat(model, result, optimizer=optimizer)
    assert treatment.helped
    assert treatment.level == "settings"


def test_a_stable_rate_or_another_optimizer_is_not_judged():
    model = shortcuts(2, scale=0.5)
    for optimizer in (
        torch.optim.SGD(model.parameters(), lr=1e-3),
        torch.optim.Adam(model.parameters(), lr=10.0),
    ):
        result = diagnose(
            model, (X, Y), loss=F.mse_loss, optimizer=optimizer, probes="full", steps=1
        )
        assert "unstable-rate" not in codes(result)


def test_a_loss_without_second_derivative_leaves_a_note():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g

    class Model(nn.Sequential):
        def forward(self, x):
            return Once.apply(super().forward(x))

    model = Model(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    result = diagnose(model, (X, Y), loss=F.mse_loss, probes="full", steps=1)
    assert any("Curvature was not measured" in note for note in result.notes)
    assert set(result.measurements["curvature"]["largest"]) == {None}


def test_many_blocks_stay_within_the_budget():
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(30)])
    probe = curvature_probe(model, (X, Y), loss=F.mse_loss, blocks=blocks_of(model, X))
    assert len(probe.blocks) == 30
    assert probe.settings["products"] <= 20
    assert set(probe["largest"]) == {None}
    assert None not in probe["trace"]
    assert any("by_block" in note for note in probe.notes)


class Twisted(torch.autograd.Function):
    """x² whose second derivative is read off the wrong unit: Hessians of it are not symmetric."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * gradient * (x.detach() + x.roll(1, -1) - x.detach().roll(1, -1))


def test_a_wrong_second_derivative_is_seen_by_the_products_with_signs():
    class Model(nn.Sequential):
        def forward(self, x):
            return Twisted.apply(super().forward(x))

    torch.manual_seed(0)
    model = Model(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    probe = curvature_probe(model, (X, Y), loss=F.mse_loss, blocks=blocks_of(model, X))
    assert any("The second derivative that torch computes here is wrong" in n for n in probe.notes)
    assert set(probe["largest"]) == {None}


def test_symmetry_costs_no_products_of_its_own(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(8)])
    blocks = blocks_of(model, X)
    whole = list(model.parameters())
    made = []
    times = HessianTerm.times

    def counted(self, vectors, **options):
        made.extend([1] * len(vectors[0]) * (len(self.parameters) == len(whole)))
        return times(self, vectors, **options)

    monkeypatch.setattr(HessianTerm, "times", counted)
    probe = curvature_probe(model, (X, Y), loss=F.mse_loss, blocks=blocks)
    assert len(made) == probe.settings["products"] <= 15
