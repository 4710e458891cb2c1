import torch
from torch import nn

from bathyscope import nets


def test_each_layer_adds_growth_channels_after_those_it_got():
    network = nets.build("densenet-16", growth=5, seed=0).eval()
    x = network.stem(torch.randn(2, 3, 8, 8))
    layer = network.blocks[0]
    y = layer(x)
    assert torch.equal(y[:, :10], x)
    assert torch.equal(y[:, 10:], layer.branch(x))
    layer.branch_dropped = True
    dropped = layer(x)
    assert torch.equal(dropped[:, :10], x)
    assert dropped[:, 10:].abs().sum() == 0


def test_transitions_compress_and_halve():
    network = nets.build("densenet-16", growth=6, compression=0.5)
    transition = network.blocks[2]
    assert transition(torch.randn(2, 24, 8, 8)).shape == (2, 12, 4, 4)
    assert sum(isinstance(m, nn.AvgPool2d) for m in network.modules()) == 2
