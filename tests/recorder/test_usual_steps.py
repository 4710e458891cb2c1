"""Steps like those before them: less is read of them, and nothing is missed by it."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope
from bathyscope.core import blocks_of
from bathyscope.recorder import watch
from bathyscope.recorder.groups import GradientTurns, parameter_groups
from bathyscope.recorder.ledger import Ledger
from bathyscope.recorder.ledger_steps import is_passed_over
from tests.unchecked import unchecked

PACKAGE = str(Path(bathyscope.__file__).parent)


def network(width=160):
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(5)))


def turns(model):
    groups = parameter_groups(model, blocks_of(model, torch.zeros(1, 160)))
    return groups, GradientTurns(groups)


def with_gradients(model, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    for p in model.parameters():
        p.grad = scale * torch.randn(p.shape, generator=generator)


def test_large_gradients_are_read_in_turns():
    model = network()
    groups, gradients = turns(model)
    with_gradients(model)
    exact = groups.gradient_norms()
    np.testing.assert_allclose(gradients.norms([], of_all=True)[0], exact)
    with_gradients(model, 1.1)
    read = []
    for _ in range(4):
        norms, _ = gradients.norms([], of_all=False)
        read.append(norms / exact > 1.05)
    assert read[0].sum() == 2  # of five layers, the first and the last
    assert read[-1].all()
    np.testing.assert_allclose(norms, 1.1 * exact, rtol=1e-6)


@pytest.mark.parametrize("scale", [3.0, 1e-3, float("nan")])
def test_where_one_stirs_all_are_read_at_once(scale):
    model = network()
    groups, gradients = turns(model)
    with_gradients(model)
    gradients.norms([], of_all=True)
    with_gradients(model, scale)
    np.testing.assert_allclose(gradients.norms([], of_all=False)[0], groups.gradient_norms())


def test_a_missing_gradient_is_no_earlier_one():
    model = network()
    groups, gradients = turns(model)
    with_gradients(model)
    gradients.norms([], of_all=True)
    for p in model[1].parameters():
        p.grad = None
    norms, _ = gradients.norms([], of_all=False)
    np.testing.assert_allclose(norms, groups.gradient_norms())
    assert norms[1] == -1


def steps(model, num, *, at=lambda step: None, foreign=lambda step: False):
    """A plain loop of one batch at each step; at some steps another loss is sent back, too."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    other = torch.nn.Parameter(torch.ones(()))
    losses = []
    for step in range(num):
        x = torch.randn(8, 160)
        at(step)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x)
        losses.append(loss.item())
        if foreign(step):
            (100 * other).backward()
        loss.backward()
        optimizer.step()
    return losses


def test_losses_of_usual_steps_are_those_of_the_loop():
    model = network()
    with watch(model) as seen:
        losses = steps(model, 120)
    np.testing.assert_allclose(seen.recording.history.losses, losses[-64:], rtol=1e-6)


def test_a_loss_of_something_else_is_left_out():
    model = network()
    with watch(model) as seen:
        losses = steps(model, 160, foreign=lambda step: step >= 101)
    kept = seen.recording.history.losses  # from step 96 on; that of step 100 stands for step 101
    losses[101] = losses[100]
    np.testing.assert_allclose(kept, losses[-64:], rtol=1e-6)
    assert not seen.events


def test_steps_passed_over_are_counted():
    model = network()
    ledger = Ledger([model], dense=64)
    with ledger:
        steps(model, 300)
    record = ledger.record
    every = sum(is_passed_over(step) for step in range(64, 300))
    assert 0.5 < every / 236 < 0.95
    assert record.steps == record.optimizers[0].steps == record.backward_passes == 300
    assert 64 < len(record.rows) < 300 - 0.8 * every
    assert record.optimizers[0].not_cleared == 0


def test_what_is_not_as_before_is_not_passed_over():
    """Gradients that are no longer cleared after step 100, each such step."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    ledger = Ledger([model], dense=64)
    with ledger:
        for step in range(200):
            x = torch.randn(8, 160)
            if step <= 100:
                optimizer.zero_grad()
            F.mse_loss(model(x), x).backward()
            optimizer.step()
    assert ledger.record.optimizers[0].not_cleared == 99


def test_weights_written_behind_the_ledger_are_an_event():
    model = network()

    def write(step):
        if step == 111:
            with torch.no_grad():
                model[2].weight.mul_(1.05)

    with watch(model) as seen:
        steps(model, 130, at=write)
    assert [(e.code, e.step, e.block) for e in seen.events] == [("weights-changed", 111, "2")]


def calls_per_step(depth):
    """Functions of ours that a watched step calls, once a step is like those before it."""
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(depth)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8, 8)
    calls = 0

    def count(frame, event, _):
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    def train(num):
        for _ in range(num):
            optimizer.zero_grad()
            F.mse_loss(model(x), x).backward()
            optimizer.step()

    with watch(model):
        train(128)
        sys.setprofile(count)
        try:
            train(64)
        finally:
            sys.setprofile(None)
    return calls / 64


@unchecked()
def test_a_watched_step_costs_hardly_more_in_a_deep_network():
    """Counted rather than timed: what a step of three milliseconds has to bear beside its own work."""
    shallow, deep = calls_per_step(4), calls_per_step(40)
    assert deep < 2 * shallow
    assert deep < 400
