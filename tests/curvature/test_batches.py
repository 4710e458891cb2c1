"""Batches and loaders: what counts as which, the same order each time, random numbers left alone."""

import os
import random

import numpy as np
import pytest
import torch
from curvature_cases import case
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bathyscope.curvature import batches as module
from bathyscope.curvature import hessian
from bathyscope.curvature.batches import Batches


class Shuffling:
    """Draws its order from all three of the usual sources."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        for _ in range(2):
            keys = torch.rand(len(self.x)).numpy() + np.random.rand(len(self.x))
            order = np.argsort(keys + [random.random() for _ in range(len(self.x))])
            yield self.x[order], self.y[order]


def random_numbers():
    # beartype draws from Python's own
    python = None if "BATHYSCOPE_TYPECHECK" in os.environ else random.getstate()
    return torch.get_rng_state(), np.random.get_state()[1].copy(), python


def assert_same(before, after):
    assert torch.equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2] == after[2]


@pytest.fixture(params=["kept", "read again"])
def memory(request, monkeypatch):
    if request.param == "read again":
        monkeypatch.setattr(module, "_KEPT_FRACTION", 0.0)
    return request.param


def loaders():
    _, (x, y) = case("mlp", samples=10)
    own = torch.Generator().manual_seed(3)
    data = TensorDataset(x, y)
    return {
        "torch": DataLoader(data, batch_size=4, shuffle=True),
        "torch, own generator": DataLoader(data, batch_size=4, shuffle=True, generator=own),
        "all three": Shuffling(x, y),
    }


@pytest.mark.parametrize("name", list(loaders()))
def test_random_numbers_go_on_as_if_nothing_had_been_read(name, memory):
    model, _ = case("mlp")
    loader = loaders()[name]
    own = getattr(loader, "generator", None)
    state = own.get_state() if own is not None else None
    before = random_numbers()
    H = hessian(model, loader)
    assert_same(before, random_numbers())
    assert bool(H.operator.objective.batches.held) == (memory == "kept")
    H.trace(exact=False, probes=2)
    H.by_block(blocks=["0"])
    assert_same(before, random_numbers())
    assert state is None or torch.equal(own.get_state(), state)


@pytest.mark.parametrize("name", list(loaders()))
def test_every_pass_reads_the_same_batches(name, memory):
    batches = Batches(loaders()[name], nn.Linear(3, 3).double())
    first = [x for (x, _), _ in batches]
    torch.rand(3), random.random()
    for one, other in zip(first, (x for (x, _), _ in batches), strict=True):
        assert torch.equal(one, other)


def test_data_read_anew_are_not_frozen_in_a_graph(monkeypatch):
    monkeypatch.setattr(module, "_KEPT_FRACTION", 0.0)
    model, (x, y) = case("mlp")
    H = hessian(model, [(x[:5], y[:5]), (x[5:], y[5:])])
    assert not H.plan.kept
    before = H.dense()
    x.mul_(2)
    assert float((H.dense() - before).abs().max()) > 1e-6


def test_two_mappings_with_the_same_names_are_two_batches():
    def batch(num):
        return {"input": torch.randn(num, 3)}

    model = nn.Linear(3, 1)
    assert [size for _, size in Batches([batch(4), batch(2)], model)] == [4, 2]
    pair = [batch(4), {"labels": torch.ones(4)}]
    assert [size for _, size in Batches(pair, model)] == [4]
    assert [size for _, size in Batches([batch(4), torch.ones(4)], model)] == [4]


def test_every_tensor_of_a_batch_goes_to_the_models_device():
    moved = module._move((torch.ones(2), {"a": [torch.ones(3), "word"]}), torch.device("meta"))
    assert moved[0].device.type == "meta"
    assert moved[1]["a"][0].device.type == "meta"
    assert moved[1]["a"][1] == "word"
