import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import nets
from bathyscope.papers.shortcut_length.studies.gradient_descent import final_losses
from bathyscope.training.batches import derived_seed

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(60, 4, generator=GENERATOR, dtype=torch.float64)
Y = X @ torch.randn(4, 4, generator=GENERATOR, dtype=torch.float64)


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


def linear_shortcuts():
    return nets.build("nshortcut-4-2", width=4, init="small")


def loss_of_a_plain_loop(build, rate, seed, steps):
    torch.manual_seed(derived_seed(seed, "weights"))
    network = build().double()
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(network(X), Y)
        loss.backward()
        if not math.isfinite(loss):
            return math.inf
        optimizer.step()
    return float(loss)


@pytest.mark.parametrize("build", [mlp, linear_shortcuts])
def test_every_run_is_a_plain_loop(build):
    points = [(rate, seed) for rate in (1e-3, 3e-2) for seed in (0, 1, 5)]
    result = final_losses(build, (X, Y), points=points, steps=12)
    expected = [loss_of_a_plain_loop(build, *point, steps=12) for point in points]
    assert result == pytest.approx(expected, rel=1e-9)
    assert len(set(result)) == 6


def test_a_run_that_diverges_changes_no_other():
    points = [(1e-3, 0), (30.0, 0), (1e-2, 1), (1e5, 1)]
    result = final_losses(linear_shortcuts, (X, Y), points=points, steps=40)
    expected = [loss_of_a_plain_loop(linear_shortcuts, *point, steps=40) for point in points]
    assert result == pytest.approx(expected, rel=1e-9)
    assert [math.isinf(loss) for loss in result] == [False, True, False, True]


def test_all_may_diverge():
    result = final_losses(linear_shortcuts, (X, Y), points=[(1e5, 0), (1e5, 1)], steps=60)
    assert result == [math.inf, math.inf]
