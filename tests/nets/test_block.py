import pytest
import torch
from torch import nn

from bathyscope import nets
from bathyscope.core.errors import UsageError
from bathyscope.core.protocol import ChangesDimension, Droppable
from bathyscope.nets import ResidualBlock

NAMES = ["resnet-14", "preresnet-20", "procresnet-22", "wrn-16-1", "densenet-16", "highway-14"]


def test_parts_are_put_together_as_written():
    entry, branch, shortcut = nn.Linear(3, 4), nn.Linear(4, 5), nn.Linear(4, 5)
    block = ResidualBlock(branch, shortcut=shortcut, entry=entry, post=nn.Tanh())
    x = torch.randn(6, 3)
    h = entry(x)
    assert torch.equal(block(x), torch.tanh(branch(h) + shortcut(h)))
    block.branch_dropped = True
    assert torch.equal(block(x), torch.tanh(shortcut(h)))


@pytest.mark.parametrize("name", NAMES)
def test_dropping_a_branch_equals_a_branch_that_gives_zero(name):
    """Each block in turn: the flag against a network whose branch returns zeros."""
    network = nets.build(name, seed=0).eval()
    x = torch.randn(2, 3, 16, 16)
    whole = network(x)
    for block in network.blocks:
        if block.shortcut is None:  # the transitions of a DenseNet have no branch to drop
            assert not isinstance(block, Droppable)
            continue
        block.branch_dropped = True
        dropped = network(x)
        block.branch_dropped = False
        handle = block.branch.register_forward_hook(lambda _m, _i, out: torch.zeros_like(out))
        torch.testing.assert_close(dropped, network(x))
        handle.remove()
        assert not torch.equal(dropped, whole)
    assert torch.equal(network(x), whole)


def test_a_plain_block_that_keeps_its_shape_becomes_the_identity():
    network = nets.build("plain-14", seed=0).eval()
    h = network.blocks[0](network.stem(torch.randn(2, 3, 8, 8)))
    network.blocks[1].branch_dropped = True
    assert torch.equal(network.blocks[1](h), h)


def test_a_plain_block_that_changes_shape_cannot_be_dropped():
    block = nets.build("plain-14").blocks[2]
    assert block.changes_dimension
    assert isinstance(block, ChangesDimension)
    assert not isinstance(block, Droppable)
    block.branch_dropped = True
    with pytest.raises(UsageError, match="cannot be dropped"):
        block(torch.randn(2, 16, 8, 8))
