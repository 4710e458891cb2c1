"""The one policy for precision: no double precision, TF32, half precision, scaled losses."""

import copy
import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.core.devices import (
    ON_A_COPY,
    differentiable_rnns,
    exact_products,
    has_double,
    on_cpu,
)
from tests.device.networks import Recurrent, case


def train(given, *, every=2, steps=3):
    optimizer = torch.optim.SGD(given.model.parameters(), 0.01)
    with bs.watch(given.model, every=every) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            given.loss(given.model(given.batch[0]), given.batch[1]).backward()
            optimizer.step()
    return seen


@pytest.mark.parametrize("network", ["mlp", "gpt-4", "lstm"])
def test_a_device_without_double_precision(pretend, network):
    wanted = case(network)
    expected = bs.diagnose(wanted.model, wanted.batch, loss=wanted.loss)
    given = case(network).to("pretend:1")
    optimizer = torch.optim.AdamW(given.model.parameters(), 1e-3)
    with pretend.without_double(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="bathyscope.watch")
        found = bs.diagnose(given.model, given.batch, loss=given.loss, optimizer=optimizer)
        assert ON_A_COPY in found.notes
        assert found.setting.batch[0].device == torch.device("pretend:1")
        seen = bs.forecast(given.model, [given.batch], loss=given.loss, spend=1)
        assert ON_A_COPY in seen.notes
        matrix = bs.hessian(given.model, given.batch, loss=given.loss)
        assert matrix.device == torch.device("cpu")
        assert bool(torch.isfinite(matrix @ torch.ones(matrix.shape[0])).all())
        watched = train(given)
        assert watched.steps == 3
        assert not watched.table.isna().all(axis=None)
        assert not any("Observation ended" in text for text in watched.not_checked)
    codes = {f.code for f in expected.findings}
    assert codes <= {f.code for f in found.findings}
    assert next(given.model.parameters()).device == torch.device("pretend:1")


def test_treatment_without_double_precision(pretend):
    given = case("mlp").to("pretend:0")
    with torch.no_grad():
        for parameter in given.model.parameters():
            parameter.mul_(20.0)
    with pretend.without_double():
        found = bs.diagnose(given.model, given.batch, loss=given.loss)
        done = bs.treat(given.model, found, spend=300)
        assert ON_A_COPY in done.notes
        assert done.recipe is not None
        assert next(given.model.parameters()).device == torch.device("pretend:0")
        before = given.loss(given.model(given.batch[0]), given.batch[1]).item()
        done.undo()
        assert given.loss(given.model(given.batch[0]), given.batch[1]).item() > before


@pytest.mark.parametrize("network", ["mlp", "resnet-20", "gpt-4", "lstm"])
def test_other_calls_without_double_precision(pretend, monkeypatch, network):
    """Also of tensors that are too large to be read whole."""
    given = case(network).to("pretend:1")
    wanted = case(network)
    layers = [m for m in given.model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    optimizer = torch.optim.SGD(given.model.parameters(), 0.01)
    norm = bs.measure.weights(wanted.model, wanted.batch)["norm"]
    with pretend.without_double():
        found = bs.measure.standard(given.model, given.batch, loss=given.loss, optimizer=optimizer)
        assert all(ON_A_COPY in measured.notes for measured in found.values())
        for name in ("updates", "weights"):
            monkeypatch.setattr("bathyscope.core.fetch.SMALL", 0)
            monkeypatch.setattr("bathyscope.linalg.conditioning._SMALL", 0)
            more = {"loss": given.loss, "optimizer": optimizer} if name == "updates" else {}
            measured = getattr(bs.measure, name)(given.model, given.batch, **more)
            assert ON_A_COPY in measured.notes
        assert measured["norm"] == pytest.approx(norm, rel=1e-4, nan_ok=True)
        assert "same" in str(
            bs.twin(given.model, copy.deepcopy(given.model), given.batch, loss=given.loss)
        )
        handle = bs.remedies.procrustes_(optimizer, layers[-2:], every=1)
        optimizer.step()
        handle.project()
        assert all(layer.left_alone is None for layer in handle.report().layers)
        handle.remove()
        with bs.watch(given.model, every=1, conditioning=True) as seen:
            given.loss(given.model(given.batch[0]), given.batch[1]).backward()
        assert seen.table["condition"].notna().any()
    assert layers[-1].weight.device == torch.device("pretend:1")


def test_spectra_and_trends_without_double_precision(pretend):
    layer = nn.Conv2d(3, 4, 3, padding=1).to("pretend:0")
    wanted = bs.linalg.conv_singular_values(layer, size=(8, 8)).values.cpu()
    batch = torch.randn(16, 6, device="pretend:0"), torch.randint(4, (16,), device="pretend:0")
    with pretend.without_double():
        found = bs.linalg.conv_singular_values(layer, size=(8, 8)).values
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)
        large = torch.randn(300, 300, device="pretend:0")
        assert bs.linalg.conditioning_of(large).rank == 300
        trend = bs.coordinate_check(
            lambda width: nn.Sequential(nn.Linear(6, width), nn.Linear(width, 4)).to("pretend:0"),
            [batch],
            widths=(4, 8),
            seeds=1,
        )
    assert len(trend.rows) == 2


def test_which_devices_have_double_precision(pretend):
    assert has_double(torch.device("cpu"))
    assert has_double(torch.device("pretend:0"))
    with pretend.without_double():
        assert not has_double(torch.device("pretend:0"))
    assert not has_double(torch.device("mps"))


def test_tf32_moves_an_eigenvalue_by_less_than_the_error_that_is_claimed(pretend):
    torch.manual_seed(0)
    model = bs.nets.build("plain-20", num_classes=4, width=4, seed=0)
    batch = torch.randn(8, 3, 8, 8), torch.randint(4, (8,))
    wide = copy.deepcopy(model).double(), (batch[0].double(), batch[1])
    exact = bs.hessian(*wide).extremes(k=1, ends="largest")
    model, there = model.to("pretend:0"), tuple(t.to("pretend:0") for t in batch)
    with pretend.tf32():
        rough = model(there[0]).cpu()
        found = bs.hessian(model, there).extremes(k=1, ends="largest")
        assert torch.get_float32_matmul_precision() == "high"  # put back
        assert torch.backends.cudnn.allow_tf32
    difference = abs(found.largest.values[0].item() - exact.largest.values[0].item())
    claimed = found.largest.errors[0].item() + exact.largest.errors[0].item()
    assert difference <= claimed
    assert claimed <= 1e-5 * exact.largest.values[0].item()
    assert (rough - model(there[0]).cpu()).abs().max() > 1e-4  # the emulation is felt


def test_exact_products_puts_every_setting_back():
    matmul = torch.backends.cuda.matmul
    before = torch.get_float32_matmul_precision(), matmul.allow_bf16_reduced_precision_reduction
    torch.set_float32_matmul_precision("medium")
    try:
        with exact_products():
            assert torch.get_float32_matmul_precision() == "highest"
            assert not torch.backends.cudnn.allow_tf32
            assert not matmul.allow_fp16_reduced_precision_reduction
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.backends.cudnn.allow_tf32
        assert matmul.allow_bf16_reduced_precision_reduction == before[1]
    finally:
        torch.set_float32_matmul_precision(before[0])


def test_recurrent_layers_in_eval_mode_leave_cudnn(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "is_available", lambda: True)
    model = Recurrent()
    for is_eval, twice, enabled in (
        (False, False, True),
        (True, False, False),
        (False, True, False),
    ):
        model.train(not is_eval)
        with differentiable_rnns(model, twice=twice):
            assert torch.backends.cudnn.enabled is enabled


def test_half_precision_is_measured_in_float32():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)).to(torch.bfloat16)
    batch = (200 * torch.randn(16, 64)).to(torch.bfloat16), torch.randint(4, (16,))
    found = bs.diagnose(model, batch)
    wide = bs.diagnose(model.float(), (batch[0].float(), batch[1]))
    for name in ("std", "max"):
        column = found.measurements["activations"].columns[name]
        for a, b in zip(column, wide.measurements["activations"].columns[name], strict=True):
            assert a == pytest.approx(b, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_on_a_device_is_diagnosed_as_on_the_cpu(pretend, dtype):
    outcomes = []
    for device in ("cpu", "pretend:0"):
        given = case("mlp").to(device)
        model, batch = given.model.to(dtype), (given.batch[0].to(dtype), given.batch[1])
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        found = bs.diagnose(model, batch, optimizer=optimizer, probes="full", steps=2)
        treated = bs.treat(model, found, optimizer=optimizer, spend=300)
        assert math.isfinite(found.measurements["curvature"].settings["largest"])
        outcomes.append(([f.code for f in found.findings], treated.recipe is None))
    assert outcomes[0] == outcomes[1]


def test_gradients_are_shown_without_the_scale_of_the_loss():
    given = case("mlp")
    plain = train(given, steps=1).table
    given = case("mlp")
    optimizer = torch.optim.SGD(given.model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    with bs.watch(given.model, every=1) as seen:
        value = F.cross_entropy(given.model(given.batch[0]), given.batch[1])
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
    for column in ("gradient_in", "gradient_out"):
        for a, b in zip(seen.table[column], plain[column], strict=True):
            assert a == pytest.approx(b, rel=1e-3) or (math.isnan(a) and math.isnan(b))


def test_whatever_data_are_given_goes_to_the_cpu(pretend):
    x = torch.ones(2, device="pretend:1")
    assert on_cpu((x, {"a": x}))[1]["a"].device.type == "cpu"
    assert [b[0].device.type for b in on_cpu([(x, x), (x, x)])] == ["cpu", "cpu"]
    assert next(iter(on_cpu(iter([(x, x)]))))[0].device.type == "cpu"
    assert on_cpu(3) == 3
