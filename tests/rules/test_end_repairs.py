"""What findings about data, output and loss ask for, as steps that can be applied."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.diagnosis import diagnose
from bathyscope.remedies import Recipe
from bathyscope.rules.targeted import end_repairs
from bathyscope.rules.targeted.context import Context


def small(outputs, end=None, *, activation=nn.ReLU):
    layers = [nn.Linear(6, 12), *([activation()] if activation else []), nn.Linear(12, outputs)]
    return nn.Sequential(*layers, *([end] if end is not None else []))


def repairs(model, x, y, loss):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    result = diagnose(model, (x, y), loss=loss, optimizer=optimizer)
    return end_repairs(Context(model, optimizer, (x, y), result.blocks, result.findings, loss))


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(64, 6)


def binary(p, y):
    p = p.clamp(1e-7, 1 - 1e-7)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()


def test_a_network_without_a_finding_at_its_ends_is_left_alone(x):
    assert repairs(small(3), x, x[:, :3].argmax(1), F.cross_entropy) == ()


def test_a_softmax_before_cross_entropy_is_dropped(x):
    (step,) = repairs(small(3, nn.Softmax(1)), x, x[:, :3].argmax(1), F.cross_entropy)
    assert step.description == "activation 3 dropped"


def test_a_softmax_over_one_unit_becomes_a_sigmoid(x):
    model = small(1, nn.Softmax(1))
    (step,) = repairs(model, x, (x[:, :1] > 0).float(), binary)
    Recipe(steps=(step,)).apply_(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert torch.equal(model(x), torch.sigmoid(model[2](model[1](model[0](x)))))


def test_unscaled_inputs_are_standardized_by_column(x):
    wide = x * torch.tensor([1.0, 1e5, 3.0, 1e3, 1.0, 0.1]) + 40
    model = small(3)
    (step,) = repairs(model, wide, x[:, :3].argmax(1), F.cross_entropy)
    read = []
    model[0].register_forward_pre_hook(lambda module, args: read.append(args[0]))
    Recipe(steps=(step,)).apply_(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(wide)
    torch.testing.assert_close(read[0].mean(0), torch.zeros(6), atol=2e-3, rtol=0)
    torch.testing.assert_close(read[0].std(0), torch.ones(6), atol=2e-3, rtol=0)


def test_targets_out_of_reach_are_reached(x):
    model = small(2, nn.Sigmoid())
    y = 1e4 * x[:, :2] + 500
    drop, scale = repairs(model, x, y, F.mse_loss)
    assert (drop.name, scale.name) == ("drop-activation", "scale-outputs")
    Recipe(steps=(drop, scale)).apply_(model, torch.optim.SGD(model.parameters(), lr=0.1))
    plain = model[2](model[1](model[0](x)))
    torch.testing.assert_close(model(x), plain * y.std(0) + y.mean(0), rtol=1e-4, atol=1e-2)


def test_linear_maps_in_a_row_get_a_relu_between_them(x):
    model = small(3, activation=None)
    (step,) = repairs(model, x, x[:, :3].argmax(1), F.cross_entropy)
    Recipe(steps=(step,)).apply_(model, torch.optim.SGD(model.parameters(), lr=0.1))
    fresh = nn.Sequential(model[0], nn.Identity(), model[1])
    model[0]._forward_hooks.clear()
    expected = model[1](torch.relu(model[0](x)))
    assert not torch.allclose(fresh(x), expected)
    Recipe(steps=(step,)).apply_(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert torch.equal(model(x), expected)
