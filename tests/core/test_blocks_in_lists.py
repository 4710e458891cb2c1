"""Blocks in a `nn.ModuleList`: sequentials built alike are a body, branches belong to their block."""

import pytest
import torch
from torch import nn

import bathyscope as bs
from bathyscope.core.arguments import matches_glob


class Residual(nn.Module):
    """Equal sequentials in a list, summed up by the model's own forward."""

    def __init__(self, num_blocks=5):
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
            for _ in range(num_blocks)
        )
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


class Branched(nn.Module):
    def __init__(self, branch):
        super().__init__()
        self.branches = nn.ModuleList(branch() for _ in range(4))
        self.mix = nn.Linear(32, 8)

    def forward(self, x):
        return x + self.mix(torch.cat([branch(x) for branch in self.branches], dim=-1))


class Branching(nn.Module):
    def __init__(self, branch=Branch):
        super().__init__()
        self.blocks = nn.ModuleList(Branched(branch) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def test_equal_sequentials_in_a_list_are_the_body():
    blocks = bs.blocks_of(Residual(), torch.randn(8, 4))
    assert [b.name for b in blocks] == [f"layers.{i}" for i in range(5)]
    assert [(b.name, b.part) for b in blocks.around] == [("stem", "stem"), ("head", "head")]


@pytest.mark.parametrize(
    "branch", [Branch, lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))]
)
def test_branches_belong_to_their_block(branch):
    blocks = bs.blocks_of(Branching(branch), torch.randn(8, 8))
    assert [b.name for b in blocks] == ["blocks.0", "blocks.1", "blocks.2"]


def test_a_glob_stops_at_dots():
    model = Branching()
    blocks = bs.blocks_of(model, torch.randn(8, 8), blocks="blocks.*")
    assert [b.name for b in blocks] == ["blocks.0", "blocks.1", "blocks.2"]
    every = bs.blocks_of(model, torch.randn(8, 8), blocks="**.one")
    assert len(every) == 12


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("layer?.1", "layer2.1", True),
        ("layer?.1", "layer2.1.conv", False),
        ("layer[12].*", "layer1.0", True),
        ("layer[!12].*", "layer1.0", False),
        ("*", "a.b", False),
        ("**", "a.b", True),
        ("a+b", "aab", False),
    ],
)
def test_globs(pattern, name, fits):
    assert matches_glob(name, pattern) is fits
