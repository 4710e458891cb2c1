"""Faults planted in networks of the NEst family: too little room, and prediction weights gone astray."""

import pytest
import torch
import torch.nn.functional as F

from bathyscope.certificates import certify, predictor
from bathyscope.diagnosis import diagnose, treat
from bathyscope.nets import aresnest, build, densenest, residual_to_augmented, resnest

SIZES = [6, 6, 6]
WANTED = 4 + 1 + 12 + 1  # K_0 with the intercept, K_1, K_2, and one output


def batch(*, n=400, classes=False):
    g = torch.Generator().manual_seed(11)
    x = torch.randn(n, 4, generator=g)
    y = (2 * x[:, :1]).sin() * x[:, 1:2] + x[:, 2:3] + 0.1 * torch.randn(n, 1, generator=g)
    return (x, (y[:, 0] > 0).long()) if classes else (x, y)


def network(kind, outputs=1):
    torch.manual_seed(0)
    return {
        "resnest": lambda: resnest(4, outputs, width=WANTED, feature_sizes=SIZES),
        "narrow": lambda: resnest(4, outputs, width=5, feature_sizes=SIZES),
        "aresnest": lambda: aresnest(4, outputs, width=5, feature_sizes=SIZES),
        "densenest": lambda: densenest(4, outputs, feature_sizes=SIZES),
    }[kind]()


def trained(kind):
    """A healthy network: better than linear after some steps."""
    model, (x, y) = network(kind), batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    return model


@torch.no_grad()
def spoil_prediction_weights(model):
    """The output of everything learned is turned round; the features are as good as before."""
    head = model.heads[0] if hasattr(model, "heads") else model.output
    head.weight.mul_(-1)


def codes(model, data=None, loss=F.mse_loss):
    return {f.code: f for f in diagnose(model, data or batch(), loss=loss).findings}


@pytest.mark.parametrize("kind", ["resnest", "aresnest", "densenest"])
def test_a_healthy_network_has_neither_finding_and_a_spoilt_one_has_its_own(kind):
    model = trained(kind)
    assert not {"narrow-residual-space", "worse-than-linear"} & set(codes(model))
    spoil_prediction_weights(model)
    result = codes(model)
    assert "narrow-residual-space" not in result
    reported = result["worse-than-linear"].evidence
    sure = certify(model, batch(), loss=F.mse_loss)
    assert reported["risk"] == pytest.approx(sure.risk)
    assert reported["linear_risk"] == pytest.approx(sure.linear_risk)
    assert reported["reachable_risk"] < reported["linear_risk"] < reported["risk"]


@pytest.mark.parametrize("kind", ["resnest", "aresnest", "densenest"])
def test_treating_solves_for_the_prediction_weights_and_can_be_undone(kind):
    model = trained(kind)
    spoil_prediction_weights(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    result = diagnose(model, batch(), loss=F.mse_loss, optimizer=optimizer)
    treatment = treat(model, result, optimizer=optimizer, spend=300)
    assert treatment.applied.startswith("prediction weights solved for")
    assert treatment.helped
    assert "worse-than-linear" not in {f.code for f in treatment.after.findings}
    sure = certify(model, batch(), loss=F.mse_loss)
    assert sure.risk == pytest.approx(sure.bound, rel=1e-3)
    treatment.undo()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_narrow_resnest_is_told_its_numbers_and_the_advice_holds():
    model = network("narrow")
    result = codes(model)["narrow-residual-space"]
    assert result.evidence["width"] == result.evidence["rank"] == 5
    assert result.evidence["features"] == WANTED - 1
    assert result.evidence["width_wanted"] == WANTED
    assert result.severity.value == "warning"
    assert result.evidence["fraction_of_risk_lost"] > 0.01
    assert "nets.residual_to_augmented" in result.remedy
    assert "narrow-residual-space" not in codes(residual_to_augmented(model))


def test_a_shared_direction_is_found_although_there_is_room():
    model = trained("resnest")
    with torch.no_grad():
        model.blocks[1].mix.weight[:, 0] = model.blocks[0].mix.weight[:, 0]
    result = codes(model)["narrow-residual-space"].evidence
    assert (result["width"], result["rank"]) == (WANTED, WANTED - 2)


def test_a_small_batch_judges_the_width_alone_and_says_so():
    result = diagnose(network("narrow"), batch(n=40), loss=F.mse_loss)
    assert [f.severity.value for f in result.findings if f.code == "narrow-residual-space"] == [
        "note"
    ]
    assert "worse-than-linear" not in {f.code for f in result.findings}
    assert any("too few to judge" in note for note in result.notes)


def test_classes_and_networks_on_images():
    assert "worse-than-linear" in codes(
        network("densenest", 2), batch(classes=True), F.cross_entropy
    )
    images = (torch.randn(16, 3, 8, 8), torch.randint(10, (16,)))
    result = diagnose(build("resnest-8", width=4), images)
    assert "certificate" not in result.measurements


def test_a_loss_whose_best_predictors_are_not_known_says_so(monkeypatch):
    solve = predictor.newton
    monkeypatch.setattr(predictor, "newton", lambda *a, **k: solve(*a, **k | {"max_iterations": 2}))
    model, (x, y) = network("narrow"), batch(n=150)
    spoil_prediction_weights(model)
    result = diagnose(model, (x, y), loss=F.l1_loss)
    assert "worse-than-linear" not in {f.code for f in result.findings}
    assert result.measurements["certificate"].settings.get("attainable_risk") is None
    assert any(
        "could not be solved for" in note for note in result.measurements["certificate"].notes
    )
