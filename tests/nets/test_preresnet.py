import pytest
import torch
from torch import nn

from bathyscope import nets


def test_transition_layers_of_a_procrustes_network():
    network = nets.build("procresnet-31", width=4)
    layers = network.transition_layers()
    assert list(layers) == ["blocks.0.entry", "blocks.3.entry", "blocks.6.entry"]
    shapes = [tuple(layer.weight.shape) for layer in layers.values()]
    assert shapes == [(16, 3, 3, 3), (32, 16, 1, 1), (64, 32, 1, 1)]
    assert [layer.stride for layer in layers.values()] == [(1, 1), (2, 2), (2, 2)]
    assert all(network.get_submodule(name) is layer for name, layer in layers.items())


def test_every_shortcut_of_a_procrustes_network_is_the_identity():
    network = nets.build("procresnet-31")
    assert all(isinstance(block.shortcut, nn.Identity) for block in network.blocks)
    assert [b.changes_dimension for b in network.blocks] == [True, False, False] * 3


@pytest.mark.parametrize("name", ["resnet-8", "preresnet-11", "wrn-10-2"])
def test_other_networks_have_no_transition_layers(name):
    assert nets.build(name).transition_layers() == {}


def test_a_stem_that_keeps_the_channels_is_a_transition_layer_but_changes_no_dimension():
    network = nets.build("procresnet-13", width=1, in_channels=4)
    assert [b.changes_dimension for b in network.blocks] == [False, True, True]
    assert len(network.transition_layers()) == 3


def test_convshortcut_of_length_two_is_prebasic():
    a = nets.build("convshortcut-20-2", seed=0)
    b = nets.build("prebasic-20", shortcut="A", seed=0)
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(a(x), b(x))


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_shortcuts_span_so_many_convolutions(length):
    network = nets.build(f"convshortcut-38-{length}")
    assert len(network.blocks) == 36 // length
    for block in network.blocks:
        assert sum(isinstance(m, nn.Conv2d) for m in block.branch) == length


@pytest.mark.parametrize("name", ["prebasic-14", "preresnet-20", "procresnet-22", "wrn-16-1"])
def test_erased_branches_have_one_relu_less(name):
    def relus(network):
        return [sum(isinstance(m, nn.ReLU) for m in b.branch) for b in network.blocks]

    whole, erased = relus(nets.build(name)), relus(nets.build(name + "-erased"))
    assert erased == [count - 1 for count in whole]
    last = [type(m) for m in nets.build(name + "-erased").blocks[1].branch][-2:]
    assert last == [nn.BatchNorm2d, nn.Conv2d]
