"""Commands in a folder with a module of a user."""

import sys

import pytest
from typer.testing import CliRunner

from bathyscope.cli import app

FACTORIES = """
import torch
from torch import nn

def model():
    layers = [nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)]
    return nn.Sequential(nn.Flatten(), *layers)

def dead():
    net = model()
    with torch.no_grad():
        net[3].bias.fill_(-1e3)
    return net

def deep():
    torch.manual_seed(0)
    return nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(6, 6), nn.ReLU())], nn.Linear(6, 3))

def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(16, 6, generator=generator), torch.randint(3, (16,), generator=generator)

def loader():
    return torch.utils.data.DataLoader([(x, y) for x, y in zip(*batch())], batch_size=8)

def fails():
    raise RuntimeError("out of luck")

def no_parameters():
    return nn.ReLU()
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("mine", None)
    return tmp_path


def run(text):
    return CliRunner().invoke(app, text.split())
