"""Weights of 4 bits, which only their layer can read, are left out of the measurements of weights."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs


class Packed(nn.Linear):
    """A linear layer whose weight lies in bytes, two entries in each, as quantization packs them."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        weight = self.weight.detach()
        self.scale = float(weight.abs().max() / 7)
        codes = ((weight / self.scale).round().clamp(-8, 7) + 8).flatten().to(torch.uint8)
        packed = (codes[::2] | (codes[1::2] << 4)).view(-1, 1)
        self.weight = nn.Parameter(packed, requires_grad=False)

    def forward(self, x):
        codes = torch.stack([self.weight.flatten() & 15, self.weight.flatten() >> 4], 1)
        weight = (codes.flatten().float() - 8) * self.scale
        return F.linear(x, weight.view(self.out_features, self.in_features), self.bias)


class Adapted(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.base = Packed(width, width)
        self.down, self.up = nn.Linear(width, 4, bias=False), nn.Linear(4, width, bias=False)

    def forward(self, x):
        return torch.relu(self.base(x) + self.up(self.down(x)))


def network(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), *(Adapted(16) for _ in range(3)), nn.Linear(16, 4))
    batch = torch.randn(32, 8).to(device), torch.randint(4, (32,)).to(device)
    return model.to(device), batch


@pytest.mark.parametrize("device", ["cpu", "pretend:0"])
def test_packed_weights_are_left_out_and_that_is_said(request, device):
    if device != "cpu":
        request.getfixturevalue("pretend")
    model, batch = network(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.AdamW(trained, 1e-3)
    found = bs.diagnose(model, batch, optimizer=optimizer)
    (note,) = [note for note in found.notes if "acked" in note]
    assert "1.base.weight, 2.base.weight, 3.base.weight" in note
    assert max(found.measurements["weights"]["max"]) < 1  # no byte among them
    matrix = bs.hessian(model, batch)
    assert matrix.shape[0] == sum(p.numel() for p in trained)
    assert any("acked" in note for note in matrix.notes)
    assert bs.forecast(model, [batch], optimizer=optimizer, spend=2).verdict
    bs.inits.apply_("he", model)  # the bytes stay as they are
    for index in (1, 2, 3):
        place = [n for n, _ in model.named_parameters()].index(f"{index}.base.weight")
        assert torch.equal(model[index].base.weight, before[place])


def test_the_norm_of_gradients_in_half_precision_is_no_overflow(pretend):
    """Scaled as a GradScaler scales them, their norm is beyond float16 long before they are."""
    model = nn.Linear(64, 64).half().to("pretend:0")
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    with bs.watch(model, every=10**6) as seen:
        for _ in range(3):
            optimizer.zero_grad()
            (model(torch.ones(8, 64).half().to("pretend:0")).sum() * 500.0).backward()
            optimizer.step()
    assert model.weight.grad.isfinite().all()
    assert not seen.events


def test_a_model_of_packed_weights_alone_is_diagnosed():
    torch.manual_seed(0)
    model = nn.Sequential(Packed(8, 16), nn.ReLU(), Packed(16, 4))
    model[0].bias = model[2].bias = None
    result = bs.diagnose(model, torch.randn(32, 8), torch.randint(4, (32,)))
    assert "frozen-parameters" in [finding.code for finding in result.findings]
    assert result.provenance["dtype"] == "uint8"
