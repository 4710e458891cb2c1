import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import UsageError, blocks_of
from bathyscope.remedies import normalize_
from tests.core import lookalikes as like
from tests.diagnosis.networks import ResidualMLP, chain


def test_equals_the_network_written_with_norms_and_can_be_taken_back():
    model, x = chain(3, norm=False), torch.randn(5, 1, 8, 8)
    plain = model(x)
    change = normalize_(model, blocks_of(model, x)[1:])
    hidden = torch.relu(model[1](x.flatten(1)))
    for layer in (model[3], model[5]):
        hidden = F.relu(F.linear(F.layer_norm(hidden, (48,)), layer.weight, layer.bias))
    expected = F.linear(F.layer_norm(hidden, (48,)), model[7].weight, model[7].bias)
    torch.testing.assert_close(model(x), expected)
    torch.testing.assert_close(copy.deepcopy(model)(x), expected)
    assert change.blocks == ("3", "5", "7")
    change.undo()
    assert torch.equal(model(x), plain)


def test_of_a_convolution_channels_and_positions_are_normalized_together():
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)), torch.randn(2, 3, 9, 9)
    hidden = F.layer_norm(model[0](x), (4, 7, 7))
    expected = model[1](hidden)
    normalize_(model, blocks_of(model, x)[1:])
    torch.testing.assert_close(model(x), expected)


def test_the_shortcut_of_a_residual_block_stays_as_it_is():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(6, 6)

        def forward(self, x):
            return x + self.one(x)

    model, x = nn.Sequential(Block(), Block()), 100 * torch.randn(3, 6)
    normalize_(model, blocks_of(model, x))
    with torch.no_grad():
        for block in model:
            block.one.weight.zero_()
            block.one.bias.zero_()
    assert torch.equal(model(x), x)


@pytest.mark.parametrize("model", [ResidualMLP(3), like.TorchvisionLike()])
def test_blocks_with_a_norm_are_left_out(model):
    x = torch.randn(2, 3, 8, 8) if isinstance(model, like.TorchvisionLike) else torch.randn(2, 64)
    with pytest.raises(UsageError, match="pass others"):
        normalize_(model, blocks_of(model, x))


def test_a_layer_that_is_called_by_keyword():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.two(input=self.one(input=x))

    model, x = Named(), torch.randn(3, 4)
    hidden = F.layer_norm(model.one(x), (4,))
    expected = model.two(hidden)
    normalize_(model, blocks_of(model, x, blocks=["two"]))
    torch.testing.assert_close(model(x), expected)
