from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core.losses import keeps_no_tensor, token_cross_entropy

WEIGHT = torch.ones(3)
KEPT = []


def closes_over(value):
    return lambda y, t: value * F.mse_loss(y, t)


def with_default(y, t, weight=WEIGHT):
    return F.cross_entropy(y, t, weight=weight)


def with_global(y, t):
    return F.cross_entropy(y, t, weight=WEIGHT)


def with_memory(y, t):
    KEPT.append(y)
    return F.mse_loss(y, t)


class Own(nn.Module):
    def forward(self, y, t):
        return F.mse_loss(y, t)


@pytest.mark.parametrize(
    "loss",
    [
        F.cross_entropy,
        token_cross_entropy,
        nn.MSELoss(),
        nn.CrossEntropyLoss(label_smoothing=0.1),
        partial(F.cross_entropy, ignore_index=0),
        lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten()),
        lambda y, t: torch.mean((y - t) ** 2),
    ],
)
def test_losses_that_can_be_tried_on_any_device(loss):
    assert keeps_no_tensor(loss)


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(WEIGHT),
        partial(F.cross_entropy, weight=WEIGHT),
        closes_over(WEIGHT),
        with_default,
        with_global,
        with_memory,
        Own(),
        print,
    ],
)
def test_losses_of_which_that_is_not_known(loss):
    assert not keeps_no_tensor(loss)
