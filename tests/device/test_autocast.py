"""Autocast and loss scaling: passes as the user's loop has them, numbers in full precision."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.core.global_state import autocast_in_passes_alone, users_autocast
from tests.device.networks import case
from tests.device.numbers import compare_numbers, numbers_of


class Casting(nn.Module):
    """A model that turns autocast on by itself, as many do."""

    def __init__(self, inner, device, dtype):
        super().__init__()
        self.inner, self.device, self.dtype = inner, device, dtype

    def forward(self, x):
        with torch.autocast(self.device, dtype=self.dtype):
            return self.inner(x)


def can_cast(given, device):
    """Whether the model itself runs under autocast on this processor; all but the LSTM do."""
    try:
        with torch.autocast(device, dtype=torch.bfloat16):
            given.model(given.batch[0])
    except RuntimeError as error:
        if "LSTM forward propagation primitive" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("device", ["cpu", "pretend"])
@pytest.mark.parametrize("network", ["mlp", "resnet-20", "encoder", "lstm"])
def test_a_diagnosis_under_autocast_is_that_of_a_model_that_casts(pretend, device, network):
    """Passes are cast, and what is made of them is not."""
    given = case(network).to(device)
    if not can_cast(given, device):
        pytest.skip("oneDNN has no LSTM in bfloat16 for processors without AVX-512")
    with torch.autocast(device, dtype=torch.bfloat16):
        outside = bs.diagnose(given.model, given.batch, loss=given.loss)
        assert torch.is_autocast_enabled(device)
    given = case(network).to(device)
    cast = Casting(given.model, device, torch.bfloat16)

    def loss(output, targets):
        with torch.autocast(device, dtype=torch.bfloat16):
            return given.loss(output, targets)

    inside = bs.diagnose(cast, given.batch, loss=loss)
    ours, theirs = numbers_of(inside), numbers_of(outside)
    compared = ["activations.std", "gradients.norm_in", "weights.norm", "representations.collapse"]
    kept = [name for name in compared if name in ours and name in theirs]
    assert len(kept) >= 2
    compare_numbers({n: theirs[n] for n in kept}, {n: ours[n] for n in kept})


@pytest.mark.parametrize("device", ["cpu", "pretend"])
def test_an_eigenvalue_under_autocast_has_the_error_that_is_claimed(pretend, device):
    given = case("mlp").to(device)
    wide = copy.deepcopy(given.model).double(), (given.batch[0].double(), given.batch[1])
    exact = bs.hessian(*wide).extremes(k=1, ends="largest").largest
    with torch.autocast(device, dtype=torch.bfloat16):
        found = bs.hessian(given.model, given.batch).extremes(k=1, ends="largest").largest
        assert bs.forecast(given.model, [given.batch], spend=2).verdict
    error = abs(found.values[0].item() - exact.values[0].item())
    assert error <= found.errors[0].item() + exact.errors[0].item()


@pytest.mark.parametrize("device", ["cpu", "pretend"])
@pytest.mark.parametrize("enabled", [True, False])
def test_a_scaler_and_autocast_in_a_watched_loop(pretend, device, enabled):
    """A scaler that is turned off, as loops in bfloat16 keep one, is none."""

    def table(device, *, cast):
        given = case("mlp").to(device)
        optimizer = torch.optim.AdamW(given.model.parameters(), 1e-3)
        scaler = torch.amp.GradScaler(device, init_scale=2.0**10, enabled=enabled and cast)
        with bs.watch(given.model, every=2) as seen:
            for _ in range(4):
                optimizer.zero_grad()
                with torch.autocast(device, dtype=torch.bfloat16, enabled=cast):
                    value = F.cross_entropy(given.model(given.batch[0]), given.batch[1])
                scaler.scale(value).backward()
                scaler.step(optimizer)
                scaler.update()
        assert seen.steps == 4
        assert not seen.events
        assert not any("Observation ended" in text for text in seen.not_checked)
        return seen.table

    found, wanted = table(device, cast=True), table("cpu", cast=False)
    for column in ("std", "gradient_in", "gradient_out"):
        for a, b in zip(found[column].dropna(), wanted[column].dropna(), strict=True):
            assert a == pytest.approx(b, rel=0.05, abs=1e-4)


def test_users_autocast_is_back_in_passes_alone():
    x = torch.ones(2, 2)
    with autocast_in_passes_alone(), users_autocast():
        assert (x @ x).dtype is torch.float32  # there was none
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with autocast_in_passes_alone():
            assert (x @ x).dtype is torch.float32
            with autocast_in_passes_alone(), users_autocast():
                assert (x @ x).dtype is torch.bfloat16
            assert (x @ x).dtype is torch.float32
        assert (x @ x).dtype is torch.bfloat16
