"""Rules of copies that never move, of state dicts that load nothing, of passes and penalties."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.recorder.ledger import Ledger
from bathyscope.recorder.loop_findings import loop_findings
from tests.loops.tasks import mlp


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def found(record):
    return {f.code: f for f in loop_findings(record)}


def train(model, num, *, lr=0.05, before_step=lambda step: 0.0):
    """A regression; returns the findings of its loop."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with Ledger() as ledger:
        for step in range(num):
            x = torch.randn(16, 24)
            optimizer.zero_grad()
            (F.mse_loss(model(x)[:, 0], x[:, 0]) + before_step(step)).backward()
            optimizer.step()
    return found(ledger.record)


@pytest.mark.parametrize("case", ["never loaded", "loaded", "averaged", "trained before"])
def test_a_copy_that_keeps_its_random_weights(case):
    online = mlp(24, 32, 1)
    target = copy.deepcopy(online)
    if case == "trained before":
        with torch.no_grad():
            for p in target.parameters():
                p.mul_(1.0 + torch.randn_like(p).abs())

    def ask(step):
        if case == "loaded" and step % 10 == 9:
            target.load_state_dict(online.state_dict())
        with torch.no_grad():
            if case == "averaged":
                for a, b in zip(target.parameters(), online.parameters(), strict=True):
                    a.lerp_(b, 0.1)
            return 0.0 * float(target(torch.randn(4, 24)).sum())

    result = train(online, 40, before_step=ask)
    assert ("copy-never-moves" in result) is (case == "never loaded")


@pytest.mark.parametrize("prefix", ["module.", ""])
def test_a_state_dict_of_other_names(prefix):
    model = mlp(24, 8, 1)
    with Ledger() as ledger:
        saved = {prefix + name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(saved, strict=False)
    result = found(ledger.record)
    assert ("loaded-nothing" in result) is bool(prefix)
    if prefix:
        assert "none of the 4 names" in result["loaded-nothing"].title
        assert "test_copies_and_loads.py" in result["loaded-nothing"].title


def test_a_state_dict_that_fits_in_part_is_not_one_that_fits_nowhere():
    model = mlp(24, 8, 1)
    with Ledger() as ledger:
        model.load_state_dict({"0.bias": torch.zeros(8), "old.bias": torch.zeros(8)}, strict=False)
        model.load_state_dict({}, strict=False)
    assert "loaded-nothing" not in found(ledger.record)


@pytest.mark.parametrize("is_alias", [True, False])
def test_best_weights_that_are_the_models_own(is_alias):
    model = mlp(24, 8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with Ledger() as ledger:
        best = model.state_dict() if is_alias else copy.deepcopy(model.state_dict())
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 24)).square().mean().backward()
            optimizer.step()
        model.load_state_dict(best)
    assert ("loads-itself" in found(ledger.record)) is is_alias


@pytest.mark.parametrize("case", ["outside", "inside", "unrolled"])
def test_a_backward_pass_outside_of_the_inner_loop(case):
    model = nn.Linear(24, 24)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(5):
            x = torch.randn(8, 24)
            for _ in range(10):
                output = model(x)
                x = output if case == "unrolled" else torch.randn(8, 24)
                if case == "inside":
                    optimizer.zero_grad()
                    output.square().mean().backward()
                    optimizer.step()
            if case != "inside":
                optimizer.zero_grad()
                output.square().mean().backward()
                optimizer.step()
    result = found(ledger.record)
    assert ("passes-without-backward" in result) is (case == "outside")
    if case == "outside":
        assert "Of 50 passes" in result["passes-without-backward"].title
        assert "only 5" in result["passes-without-backward"].title


@pytest.mark.parametrize("factor", [10.0, 1e-4])
def test_a_penalty_that_outweighs_the_loss(factor):
    model = mlp(24, 32, 1)
    weights = list(model.parameters())
    penalty = lambda step: factor * sum(p.square().sum() for p in weights)  # noqa: E731
    result = train(model, 10, lr=1e-3, before_step=penalty)
    assert ("heavy-penalty" in result) is (factor == 10.0)


@pytest.mark.parametrize("equal", [True, False])
def test_samples_that_are_all_equal(equal):
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(8, 9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Ledger() as ledger:
        for _ in range(12):
            tokens = torch.zeros(16, 2, dtype=torch.long) if equal else torch.randint(9, (16, 2))
            optimizer.zero_grad()
            F.cross_entropy(model(tokens), torch.randint(9, (16,))).backward()
            optimizer.step()
    assert ("few-distinct-samples" in found(ledger.record)) is equal
