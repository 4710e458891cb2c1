import math

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from bathyscope.core.errors import UsageError
from bathyscope.linalg import conv_singular_values
from bathyscope.remedies import norm_preserving


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 8, 3),
        nn.Conv2d(8, 4, 1, stride=2),
        nn.Conv1d(4, 8, 3, groups=2),
        nn.Linear(3, 5),
    ],
    ids=repr,
)
def test_stays_norm_preserving_while_it_trains(layer):
    torch.manual_seed(0)
    layer.reset_parameters()  # it was drawn when the file was read, from whatever came before
    norm_preserving(layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    shape = (
        (4, 3)
        if isinstance(layer, nn.Linear)
        else (4, layer.in_channels, *[8] * (layer.weight.ndim - 2))
    )
    x = torch.randn(shape)
    losses = []
    for _ in range(15):
        loss = (layer(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    weight = layer.weight.detach()
    options = (
        {} if isinstance(layer, nn.Linear) else {"stride": layer.stride, "groups": layer.groups}
    )
    spectrum = conv_singular_values(weight, None if isinstance(layer, nn.Linear) else 8, **options)
    assert spectrum.spread < 0.05


def test_gradients_are_those_of_the_map():
    layer = nn.Conv2d(2, 3, 3).double()
    norm_preserving(layer)
    parametrization = layer.parametrizations.weight[0]
    weight = layer.parametrizations.weight.original.detach().requires_grad_()
    assert torch.autograd.gradcheck(parametrization, (weight,))


def test_gain_and_removal():
    layer = norm_preserving(nn.Conv2d(4, 8, 1), gain="relu")
    assert conv_singular_values(layer.weight.detach(), 4).largest == pytest.approx(2, abs=1e-4)
    used = layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)
    assert torch.equal(layer.weight, used)
    assert norm_preserving(nn.Linear(2, 2), gain=3.0).weight.norm(2).item() == pytest.approx(
        3 * math.sqrt(2)
    )


def test_autocast_does_not_blunt_the_projection():
    layer = norm_preserving(nn.Conv2d(4, 8, 1))
    with torch.autocast("cpu", dtype=torch.float16):
        weight = layer.weight.detach()
    gram = weight.flatten(1).T @ weight.flatten(1)
    assert (gram - 2 * torch.eye(4)).abs().max() < 1e-5


def test_bad_input():
    with pytest.raises(UsageError, match="not ReLU"):
        norm_preserving(nn.ReLU())
    with pytest.raises(UsageError, match="gain"):
        norm_preserving(nn.Linear(2, 2), gain=0.0)
    with pytest.raises(UsageError, match="steps"):
        norm_preserving(nn.Linear(2, 2), steps=0)
    layer = nn.Linear(2, 2)
    nn.init.zeros_(layer.weight)
    with pytest.raises(UsageError, match="zero"):
        norm_preserving(layer)
