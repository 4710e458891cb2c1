"""The written-out backward pass against autograd, run by run."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from bathyscope import nets
from bathyscope.training import stacked_gradient as module
from bathyscope.training.stacked_gradient import _Differentiated, _Tape, stacked_gradient


class After(nn.Module):
    """relu(x + W relu(V x + b) + c)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x):
        return torch.relu(x + self.second(F.relu(self.first(x))))


NETWORKS = {
    "linear, length 2": lambda: nets.build("nshortcut-3-2", width=4),
    "linear, length 1": lambda: nets.build("nshortcut-3-1", width=4),
    "relu at mid": lambda: nets.build("nshortcut-3-3", width=4, mid="relu"),
    "relu after the sum": lambda: nn.Sequential(After(), After()),
    "no shortcut": lambda: nets.build("nshortcut-3-2", width=4, mid="relu", shortcut="none"),
    "widths differ": lambda: nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 2)),
}


def runs_of(build, num):
    torch.manual_seed(3)
    models = [build().double() for _ in range(num)]
    theta = torch.stack([parameters_to_vector(m.parameters()).detach() for m in models])
    return models[0], theta


@pytest.mark.parametrize("bytes_at_once", [1, 500, 10**6], ids=["one", "some", "all"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_row_is_the_gradient_of_its_own_run(monkeypatch, name, bytes_at_once):
    monkeypatch.setattr(module, "_BYTES_AT_ONCE", bytes_at_once)
    model, theta = runs_of(NETWORKS[name], 5)
    x = torch.randn(5, 6, 4, dtype=torch.float64)
    y = torch.randn(5, 6, model(x[0]).shape[1], dtype=torch.float64)
    quick = stacked_gradient(model, vmap(F.mse_loss), theta, x=x, y=y)
    assert isinstance(quick, _Tape)
    theta = theta + 0.1  # other weights than those that were tried, in another place
    for rows in (slice(0, 5), slice(1, 4)):  # runs may leave the stack
        losses, outputs, gradient = quick(theta[rows], x[rows], y[rows])
        for i, row in enumerate(theta[rows]):
            vector_to_parameters(row, model.parameters())
            output = model(x[rows][i])
            loss = F.mse_loss(output, y[rows][i])
            expected = parameters_to_vector(torch.autograd.grad(loss, [*model.parameters()]))
            torch.testing.assert_close(outputs[i], output.detach())
            torch.testing.assert_close(losses[i], loss.detach())
            torch.testing.assert_close(gradient[i], expected, rtol=1e-10, atol=1e-13)


def test_a_change_in_place_is_seen():
    model, theta = runs_of(NETWORKS["relu at mid"], 3)
    x, y = torch.randn(2, 3, 6, 4, dtype=torch.float64)
    quick = stacked_gradient(model, vmap(F.mse_loss), theta, x=x, y=y)
    first = quick(theta, x, y)[2].clone()
    theta.mul_(2)
    assert not torch.allclose(quick(theta, x, y)[2], first)
    assert torch.allclose(quick(theta.div_(2), x, y)[2], first)


def test_a_run_that_is_not_finite_does_not_touch_the_others():
    model, theta = runs_of(NETWORKS["relu at mid"], 3)
    x, y = torch.randn(2, 3, 6, 4, dtype=torch.float64)
    quick = stacked_gradient(model, vmap(F.mse_loss), theta, x=x, y=y)
    first = quick(theta, x, y)[2].clone()
    theta[1] = torch.inf
    losses, _, gradient = quick(theta, x, y)
    assert torch.isfinite(losses).tolist() == [True, False, True]
    assert torch.equal(gradient[[0, 2]], first[[0, 2]])


def test_a_program_that_reads_a_network_wrongly_is_not_taken(monkeypatch):
    model, theta = runs_of(NETWORKS["relu at mid"], 3)
    program = module.layer_program(model, torch.zeros(2, 4, dtype=torch.float64))
    monkeypatch.setattr(
        module, "layer_program", lambda *_: [*program[:-1], replace(program[-1], addend=1)]
    )
    x, y = torch.randn(2, 3, 6, 4, dtype=torch.float64)
    chosen = stacked_gradient(model, vmap(F.mse_loss), theta, x=x, y=y)
    assert isinstance(chosen, _Differentiated)
