"""Which networks are read as layers, and what is read."""

import pytest
import torch
from torch import nn

from bathyscope import nets
from bathyscope.training.layer_program import layer_program

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


class Twice(nn.Module):
    """The same weights at two places."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(self.layer(x))


class Idle(nn.Module):
    """A layer whose output nobody reads."""

    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        self.idle(x)
        return self.used(x)


class Asks(nn.Module):
    """A forward pass that depends on the values."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x


class Scaled(nn.Module):
    """A sum with a factor."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return torch.add(x, self.layer(x), alpha=2)


def test_a_unit_is_two_layers_with_the_shortcut_in_the_second():
    program = layer_program(nets.build("nshortcut-2-2", width=3, mid="relu"), X)
    assert [(l.out, l.source, l.addend, l.relu) for l in program] == [
        (1, 0, None, True),
        (2, 1, 0, False),
        (3, 2, None, True),
        (4, 3, 2, False),
    ]


def hooked():
    model = nn.Linear(3, 3)
    model.register_forward_hook(lambda *_: None)
    return model


@pytest.mark.parametrize(
    "build",
    [
        Twice,
        Idle,
        Asks,
        Scaled,
        hooked,
        lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh()),
        lambda: nn.Sequential(nn.ReLU(), nn.Linear(3, 3)),
        lambda: nets.build("nshortcut-2-2", width=3, pre="relu"),  # z is read by the shortcut too
        nn.Identity,
    ],
)
def test_other_networks_are_left_to_autograd(build):
    assert layer_program(build(), X) is None
