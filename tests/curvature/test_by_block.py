"""Every block's diagonal block against the same part of the dense reference."""

import pytest
import torch
from curvature_cases import case, reference
from torch import nn

from bathyscope.curvature import by_block as module
from bathyscope.curvature import hessian


def part_of(model, whole, prefixes):
    names = [n for n, p in model.named_parameters() for _ in range(p.numel())]
    chosen = [i for i, n in enumerate(names) if n.startswith(prefixes)]
    return torch.linalg.eigvalsh(whole[chosen][:, chosen])


def test_exact_blocks():
    model, batch = case("residual")
    whole = reference(model, [batch])
    found = hessian(model, batch).by_block(blocks=["one", "two"])
    assert [b.name for b in found.blocks] == ["one", "two"]
    for i, name in enumerate(("one", "two")):
        values = part_of(model, whole, f"{name}.")
        assert found["largest"][i] == pytest.approx(float(values[-1]), rel=1e-9)
        assert found["smallest"][i] == pytest.approx(float(values[0]), rel=1e-9)
        assert found["trace"][i] == pytest.approx(float(values.sum()), rel=1e-9)
        assert found["trace_error"][i] == 0.0
        assert found["num_parameters"][i] == len(values)


def test_a_layer_and_its_norm_are_one_block():
    model, batch = case("conv")
    whole = reference(model, [batch])
    found = hessian(model, batch).by_block()
    assert [(b.name, b.end) for b in found.blocks] == [("0", "2"), ("3", "6"), ("7", "7")]
    assert found["num_parameters"] == (18 + 4, 36 + 2 + 4, 99)
    values = part_of(model, whole, ("3.", "4."))
    assert found["largest"][1] == pytest.approx(float(values[-1]), rel=1e-9)


def test_large_blocks_are_estimated_and_say_so(monkeypatch):
    monkeypatch.setattr(module, "_EXACT_UP_TO", 4)
    model, batch = case("residual")
    whole = reference(model, [batch])
    found = hessian(model, batch).by_block(blocks=["one"])
    values = part_of(model, whole, "one.")
    assert found["largest"][0] == pytest.approx(float(values[-1]), rel=1e-3)
    assert found["smallest"][0] == pytest.approx(float(values[0]), rel=1e-3)
    assert abs(found["trace"][0] - float(values.sum())) <= 4 * found["trace_error"][0]
    assert found["condition_number"] == (None,)
    assert any("not resolved" in note for note in found.notes)


def test_singular_blocks_have_no_condition_number_and_a_reason():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].bias.fill_(-100.0)  # dead units: no curvature at all in the first layer
    found = hessian(model, (torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 1]))).by_block()
    assert found["condition_number"][0] is None
    assert any(note.startswith("0:") and "counts as zero" in note for note in found.notes)


def test_settings_say_what_decides_the_numbers():
    found = hessian(*case("conv"), batchnorm="running").by_block()
    assert found.settings["batchnorm"] == "running"
    assert found.settings["matrix"] == "hessian"
