"""Known outcomes: standard, maximal-update and depth-scaled parametrizations of an MLP and a GPT."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.core import UsageError
from bathyscope.core.losses import token_cross_entropy
from tests.unchecked import unchecked

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(64, 16, generator=GENERATOR)
BATCH = X, X[:, :4].argmax(1)
TOKENS = torch.randint(17, (8, 13), generator=GENERATOR)
TEXT = TOKENS[:, :-1], TOKENS[:, 1:].contiguous()
WIDTHS, DEPTHS = (64, 128, 256, 512), (2, 4, 8, 16)


class Branch(nn.Module):
    def __init__(self, width, scale):
        super().__init__()
        self.norm, self.first = nn.LayerNorm(width), nn.Linear(width, width)
        self.scale = scale

    def forward(self, x):
        return x + self.scale * torch.relu(self.first(self.norm(x)))


class MLP(nn.Module):
    def __init__(self, width=64, depth=2, *, branch=1.0, out=1.0):
        super().__init__()
        self.enter = nn.Linear(16, width)
        self.body = nn.ModuleList(Branch(width, branch) for _ in range(depth))
        self.leave, self.out = nn.Linear(width, 4), out

    def forward(self, x):
        x = self.enter(x)
        for block in self.body:
            x = block(x)
        return self.out * self.leave(x)


class Block(nn.Module):
    def __init__(self, width, scale, temperature):
        super().__init__()
        self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.made = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale, self.temperature = scale, temperature

    def forward(self, x):
        q, k, v = self.asked(self.norm(x)).chunk(3, -1)
        mask = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        weights = (self.temperature * q @ k.transpose(1, 2)).masked_fill(~mask, -1e9).softmax(-1)
        x = x + self.scale * self.made(weights @ v)
        return x + self.scale * self.down(F.gelu(self.up(self.other(x))))


class GPT(nn.Module):
    def __init__(self, width=32, depth=2, *, branch=1.0, out=1.0, temperature=None):
        super().__init__()
        self.embed = nn.Embedding(17, width)
        temperature = width**-0.5 if temperature is None else temperature
        self.blocks = nn.ModuleList(Block(width, branch, temperature) for _ in range(depth))
        self.norm, self.head, self.out = nn.LayerNorm(width), nn.Linear(width, 17), out

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.out * self.head(self.norm(x))


def adam(model, hidden):
    """Adam, with a lower rate for the weights that are as wide on both sides."""
    wide = [
        p for n, p in model.named_parameters() if ("body" in n or "blocks" in n) and p.ndim == 2
    ]
    ids = {id(p) for p in wide}
    rest = [p for p in model.parameters() if id(p) not in ids]
    groups = [{"params": wide, "lr": 1e-2 * hidden}, {"params": rest, "lr": 1e-2}]
    return torch.optim.Adam(groups)


def standard(kind):
    def build(width=64, depth=2):
        model = kind(width, depth)
        return model, adam(model, 1.0)

    return build


def maximal_update(kind):
    """Hidden rates and the output over the width, the output layer at zero, attention over the width."""

    def build(width=64, depth=2):
        options = {"temperature": 8.0 / width} if kind is GPT else {}
        model = kind(width, depth, out=64 / width, **options)
        nn.init.zeros_((model.leave if kind is MLP else model.head).weight)
        return model, adam(model, 64 / width)

    return build


def complete(kind):
    """Branches over the number of blocks."""

    def build(width=64, depth=2):
        model = kind(width, depth, branch=2 / depth)
        return model, adam(model, 1.0)

    return build


GIVEN = {MLP: (BATCH, F.cross_entropy), GPT: (TEXT, token_cross_entropy)}


@pytest.mark.parametrize("kind", [MLP, GPT])
def test_width(kind):
    given, loss = GIVEN[kind]
    widths = WIDTHS if kind is MLP else WIDTHS[:3]
    found = bs.coordinate_check(standard(kind), [given], widths=widths, loss=loss, steps=3)
    assert found.parametrization("width") == "standard"
    assert not found.transfers("width")
    assert "1/width" in found.remedy
    scaled = bs.coordinate_check(maximal_update(kind), [given], widths=widths, loss=loss, steps=3)
    assert scaled.parametrization("width") == "maximal update"
    assert scaled.transfers("width")
    assert scaled.remedy == ""


@pytest.mark.parametrize("kind", [MLP, GPT])
def test_depth(kind):
    given, loss = GIVEN[kind]
    found = bs.coordinate_check(standard(kind), [given], depths=DEPTHS, loss=loss, steps=3)
    assert found.trend("depth") == "grows"
    assert "CompleteP" in found.remedy
    scaled = bs.coordinate_check(complete(kind), [given], depths=DEPTHS, loss=loss, steps=3)
    assert scaled.parametrization("depth") == "depth-scaled branches"
    assert scaled.transfers("depth")


def test_exponents_are_those_of_a_line_through_the_table():
    found = bs.coordinate_check(standard(MLP), [BATCH], widths=(16, 64), depths=(1, 2), steps=1)
    frame = found.to_frame()
    logs = (
        frame[frame.axis == "width"]
        .groupby("size")
        .output_change.agg(lambda v: v.apply(math.log).mean())
    )
    assert found.exponents["width"]["output_change"] == pytest.approx(
        (logs[64] - logs[16]) / math.log(4)
    )
    assert len(frame) == 8
    assert found.plot().get_xlabel() == "width or depth"
    assert "learning rate" in repr(found)


@unchecked()
def test_bad_input_is_one_sentence():
    with pytest.raises(UsageError, match="at least two widths"):
        bs.coordinate_check(standard(MLP), [BATCH], widths=(16,))
    with pytest.raises(UsageError, match="No sizes"):
        bs.coordinate_check(standard(MLP), [BATCH])
    with pytest.raises(UsageError, match=r"called as factory\(width=8\)"):
        bs.coordinate_check(lambda size: MLP(size), [BATCH], widths=(8, 16))
    with pytest.raises(UsageError, match="but a int came"):
        bs.coordinate_check(lambda width: 3, [BATCH], widths=(8, 16))
