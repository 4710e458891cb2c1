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
    result = hessian(model, batch).by_block(blocks=["one", "two"])
    assert [b.name for b in result.blocks] == ["one", "two"]
    for i, name in enumerate(("one", "two")):
        values = part_of(model, whole, f"{name}.")
        assert result["largest"][i] == pytest.approx(float(values[-1]), rel=1e-9)
        assert result["smallest"][i] == pytest.approx(float(values[0]), rel=1e-9)
        assert result["trace"][i] == pytest.approx(float(values.sum()), rel=1e-9)
        assert result["trace_error"][i] == 0.0
        assert result["num_parameters"][i] == len(values)


def test_a_layer_and_its_norm_are_one_block():
    model, batch = case("conv")
    whole = reference(model, [batch])
    result = hessian(model, batch).by_block()
    assert [(b.name, b.end) for b in result.blocks] == [("0", "2"), ("3", "6"), ("7", "7")]
    assert result["num_parameters"] == (18 + 4, 36 + 2 + 4, 99)
    values = part_of(model, whole, ("3.", "4."))
    assert result["largest"][1] == pytest.approx(float(values[-1]), rel=1e-9)


def test_large_blocks_are_estimated_and_say_so(monkeypatch):
    monkeypatch.setattr(module, "EXACT_UP_TO", 4)
    model, batch = case("residual")
    whole = reference(model, [batch])
    result = hessian(model, batch).by_block(blocks=["one"])
    values = part_of(model, whole, "one.")
    assert result["largest"][0] == pytest.approx(float(values[-1]), rel=1e-3)
    assert result["smallest"][0] == pytest.approx(float(values[0]), rel=1e-3)
    assert abs(result["trace"][0] - float(values.sum())) <= 4 * result["trace_error"][0]
    assert result["condition_number"] == (None,)
    assert any("not resolved" in note for note in result.notes)


def test_blocks_up_to_2048_parameters_are_exact():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 50), nn.Tanh(), nn.Linear(50, 12), nn.Tanh())
    result = hessian(model, (torch.randn(4, 6), torch.tensor([0, 3, 1, 2]))).by_block(blocks=["2"])
    assert result["num_parameters"] == (612,)
    assert result["trace_error"] == (0.0,)
    assert not any("too many" in note for note in result.notes)


def test_an_end_at_zero_does_not_use_up_the_products():
    """The last layer of a convex loss: positive semi-definite, its smallest eigenvalues run into zero."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 300), nn.ReLU(), nn.Linear(300, 10))
    H = hessian(model, (torch.randn(256, 16), torch.randint(0, 10, (256,))))
    result = H.by_block(blocks=["2"])
    assert result["num_parameters"] == (3010,)
    assert H.num_products < 200
    assert abs(result["smallest"][0]) <= 1e-5 * result["largest"][0]
    assert not any("known to ±" in note for note in result.notes)
    assert any("more than 2048" in note for note in result.notes)


def test_singular_blocks_have_no_condition_number_and_a_reason():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].bias.fill_(-100.0)  # dead units: no curvature at all in the first layer
    result = hessian(model, (torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 1]))).by_block()
    assert result["condition_number"][0] is None
    assert any(note.startswith("0:") and "counts as zero" in note for note in result.notes)


def test_settings_say_what_decides_the_numbers():
    result = hessian(*case("conv"), batchnorm="running").by_block()
    assert result.settings["batchnorm"] == "running"
    assert result.settings["matrix"] == "hessian"
