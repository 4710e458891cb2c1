import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.measure.functions import Nonlinearities, dead_units


@pytest.mark.parametrize(
    "call",
    [
        F.relu,
        torch.relu,
        torch.relu_,
        lambda x: x.relu(),
        lambda x: x.relu_(),
        lambda x: F.relu(x, inplace=True),
        nn.ReLU(),
        nn.ReLU(inplace=True),
        nn.ReLU6(),
        nn.GELU(),
        nn.SiLU(inplace=True),
        nn.LeakyReLU(),
        nn.ELU(inplace=True),
        nn.Mish(),
        nn.Hardswish(),
        nn.Softplus(),
        nn.PReLU(),
        nn.Sigmoid(),
        nn.Tanh(),
        torch.sigmoid,
        torch.tanh,
    ],
)
def test_every_form_of_call_is_told_of_exactly_once(call):
    result = []
    with Nonlinearities(lambda name, output: result.append(output)):
        output = call(torch.randn(3, 4))
    assert len(result) == 1
    assert torch.equal(result[0], output)


def test_what_is_no_activation_function_is_not_told_of():
    result = []
    with Nonlinearities(lambda name, output: result.append(output)):
        F.linear(torch.randn(3, 4), torch.randn(2, 4)) + torch.ones(2)
    assert not result


def test_dead_units_are_those_with_one_value_over_samples_and_positions():
    x = torch.randn(5, 4, 3, 3)
    x[:, 1] = 0
    x[:, 2] = 7
    assert dead_units(x, units=1) == 2
    x[4, 1, 2, 2] = 1e-30
    assert dead_units(x, units=1) == 1


def test_one_value_a_unit_says_nothing():
    assert dead_units(torch.zeros(1, 4), units=1) is None
    assert dead_units(torch.zeros(4), units=0) is None


def test_dead_units_of_images_are_those_of_the_plain_count():
    torch.manual_seed(0)
    x = torch.randn(6, 8, 5, 5)
    x[:, 1] = 0.0  # dead
    x[:1, 2] = 3.0  # one value in the first sample alone
    x[:, 3] = 1.0
    x[5, 3, 4, 4] = torch.nan  # not a number somewhere: no one value
    x[:, 4] = -0.0
    x[0, 4] = 0.0  # the same number
    expected = sum(int((x[:, unit] == x[0, unit, 0, 0]).all()) for unit in range(8))
    assert dead_units(x, units=1) == expected == 2
    assert dead_units(x.movedim(1, 3).contiguous(), units=3) == expected
    assert dead_units(x[:, [0, 5]], units=1) == 0
