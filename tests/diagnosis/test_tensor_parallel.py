"""Layers cut over processes by `parallelize_module`: measured as the model that they are together."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from tests.two_processes import results


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def network():
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(3)), nn.Linear(8, 4))
    return model, (torch.randn(16, 8), torch.randint(4, (16,)))


def numbers(model, batch):
    """Of every call: the diagnosis with its look-ahead, the forecast, the Hessian, and a watched training."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    found = bs.diagnose(model, batch, optimizer=optimizer, probes="full", steps=2)
    result = {
        f"{name}.{column}": list(values)
        for name, measured in found.measurements.items()
        for column, values in measured.columns.items()
        if all(isinstance(value, float) for value in values)
    }
    result["findings"] = [f.code for f in found.findings]
    result["forecast"] = [bs.forecast(model, [batch], optimizer=optimizer, spend=2).probability]
    result["eigenvalue"] = bs.hessian(model, batch).extremes(1).largest.values.tolist()
    with bs.watch(model, every=1) as seen:
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(model(batch[0]), batch[1]).backward()
            optimizer.step()
    result["watched"] = seen.table["std"].tolist()
    return result


def in_pieces(rank, folder):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    model, batch = network()
    mesh = init_device_mesh("cpu", (2,))
    for block in model[:3]:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    assert model[0].up.weight.to_local().shape == (8, 8)
    return numbers(model, batch)


def test_a_model_of_two_processes_is_measured_as_one(tmp_path):
    wanted = numbers(*network())
    for found in results(tmp_path, in_pieces):
        assert found.pop("findings") == wanted["findings"]
        assert found.keys() == wanted.keys() - {"findings"}
        for name, values in found.items():
            assert values == pytest.approx(wanted[name], rel=1e-3, abs=1e-6), name
