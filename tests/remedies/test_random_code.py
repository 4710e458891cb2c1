"""`recipe.code()` against `apply_`: random recipes on networks called by position and by keyword.

Both give the same function, with the same parameters to train, up to rounding; or both refuse.
"""

import random

import pytest
import torch
from torch import nn

from bathyscope import remedies
from bathyscope.core import UsageError
from bathyscope.remedies import Recipe


class Block(nn.Module):
    """A feed-forward branch, called by keyword or by position."""

    def __init__(self, size):
        super().__init__()
        self.one, self.act, self.two = (
            nn.Linear(size, 2 * size),
            nn.ReLU(),
            nn.Linear(2 * size, size),
        )

    def forward(self, hidden):
        return self.two(self.act(self.one(input=hidden)))


class Network(nn.Module):
    """Attention, recurrence and branches, with every call by keyword where asked for."""

    def __init__(self, *, by_keyword, size=6, depth=3):
        super().__init__()
        self.by_keyword = by_keyword
        self.stem = nn.Linear(4, size)
        self.attention = nn.MultiheadAttention(size, 2, batch_first=True)
        self.blocks = nn.ModuleList(Block(size) for _ in range(depth))
        self.lstm = nn.LSTM(size, size, batch_first=True)
        self.head = nn.Linear(size, 3)

    def forward(self, x):
        if not self.by_keyword:
            x = self.stem(x)
            x = x + self.attention(x, x, x, need_weights=False)[0]
            for block in self.blocks:
                x = block(x)
            return self.head(self.lstm(x)[0].mean(1))
        x = self.stem(input=x)
        x = x + self.attention(query=x, key=x, value=x, need_weights=False)[0]
        for block in self.blocks:
            x = block(hidden=x)
        return self.head(input=self.lstm(input=x)[0].mean(1))


def random_steps(draw, depth=3):
    """One to five remedies that fit the network, each with values of its own."""
    blocks = draw.sample([f"blocks.{i}" for i in range(depth)], draw.randint(1, depth))
    layers = [f"blocks.{i}.{name}" for i in range(depth) for name in ("one", "two")] + ["head"]
    some = tuple(draw.sample(layers, draw.randint(1, 4)))
    norms = (*some, *draw.sample(["attention", "lstm"], draw.randint(0, 2)))
    choices = [
        remedies.AddShortcuts(spans=tuple((b, b) for b in blocks), scale=draw.uniform(0.1, 1)),
        remedies.AddNorms(layers=norms),
        remedies.SetWeights(values={"head.bias": [draw.gauss(0, 1) for _ in range(3)]}),
        remedies.ScaleWeights(factors={name: draw.uniform(0.1, 2) for name in some}),
        remedies.DrawWeights(gain=draw.uniform(0.5, 1.5), seed=draw.randrange(99)),
        remedies.DrawWeights(scheme="orthogonal", layers=some, seed=draw.randrange(99)),
        remedies.TailorActivations(layers=(f"{blocks[0]}.act",), slope=draw.uniform(0.1, 0.9)),
        remedies.LearnFactors(layers=("attention",), size=6, start=draw.uniform(0, 1)),
        remedies.StandardizeInputs(shift=(draw.gauss(0, 1),), scale=(draw.uniform(0.5, 2),)),
        remedies.ScaleOutputs(shift=(draw.gauss(0, 1),) * 3, scale=(draw.uniform(0.5, 2),) * 3),
        remedies.ReplaceOptimizer(kind="adamw", lr=draw.uniform(1e-4, 1e-2)),
        remedies.ScaleRate(factor=draw.uniform(0.1, 2)),
        remedies.ClipGradient(norm=draw.uniform(0.1, 2)),
    ]
    return tuple(draw.sample(choices, draw.randint(1, 5)))


def case(seed):
    """The recipe of a seed and a fresh network for it, with its optimizer."""
    draw = random.Random(seed)
    steps = random_steps(draw)
    by_keyword, is_double = bool(seed % 2), draw.random() < 0.4

    def fresh():
        torch.manual_seed(seed)
        model = Network(by_keyword=by_keyword)
        model = model.double() if is_double else model
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    x = torch.randn(5, 7, 4, generator=torch.Generator().manual_seed(seed))
    return Recipe(steps=steps), fresh, x.double() if is_double else x


def check(seed, *, edited):
    recipe, fresh, x = case(seed)
    model, optimizer = fresh()
    try:
        used = recipe.apply_(model, optimizer).optimizer
    except UsageError:
        return  # refused, in a sentence
    names = dict(zip(("model", "optimizer"), fresh(), strict=True))
    text = recipe.code(names["model"], x) if edited else recipe.code()
    exec(compile(text, "recipe", "exec"), names)
    tolerance = {"rtol": 1e-6, "atol": 1e-6}
    torch.testing.assert_close(names["model"].eval()(x), model.eval()(x), **tolerance)

    def trained(stepper, of):
        known = {id(p): name for name, p in of.named_parameters()}
        return [[known[id(p)] for p in g["params"]] for g in stepper.param_groups]

    assert trained(names["optimizer"], names["model"]) == trained(used, model)
    assert type(names["optimizer"]) is type(used)


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_code_and_apply_give_the_same_network(seed, edited):
    check(seed, edited=edited)


@pytest.mark.slow
@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("seed", range(20, 200))
def test_code_and_apply_give_the_same_network_in_many(seed, edited):
    check(seed, edited=edited)
