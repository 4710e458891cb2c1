import pytest
import torch
from torch import nn

from bathyscope import nets
from bathyscope.core.errors import UsageError
from bathyscope.inits import he_, zero_branch_

RESIDUAL = [
    "resnet-14",
    "resnext-20",
    "prebasic-14",
    "preresnet-20",
    "procresnet-22",
    "wrn-16-1",
    "highway-14",
    "densenet-16",
    "imagenet-resnet-18",
]


@pytest.mark.parametrize("name", RESIDUAL)
def test_the_network_starts_as_its_shortcuts(name):
    network = nets.build(name, init="zero_branch", seed=0)
    x = torch.randn(4, 3, 16, 16)
    whole = network(x)
    for block in network.blocks:
        if block.shortcut is not None:
            block.branch_dropped = True
    torch.testing.assert_close(network(x), whole)


def test_a_branch_that_ends_in_a_norm_has_its_norm_zeroed():
    network = zero_branch_(nets.build("resnet-8", seed=0), reset=False)
    kept = nets.build("resnet-8", seed=0)
    norms = {f"blocks.{i}.branch.4.weight" for i in range(3)}
    for name, parameter in network.named_parameters():
        expected = kept.get_parameter(name)
        assert torch.equal(parameter, 0 * expected if name in norms else expected)


def test_a_branch_that_ends_in_a_convolution_has_that_zeroed():
    network = zero_branch_(nets.build("prebasic-8", seed=0))
    for block in network.blocks:
        assert block.branch[-1].weight.abs().sum() == 0
        assert block.branch[2].weight.abs().sum() > 0


def test_the_rest_is_he():
    network = zero_branch_(nets.build("prebasic-8"), generator=torch.Generator().manual_seed(1))
    other = he_(nets.build("prebasic-8"), generator=torch.Generator().manual_seed(1))
    assert torch.equal(network.stem.weight, other.stem.weight)


def test_gradients_reach_the_zeroed_layers():
    network = nets.build("preresnet-11", init="zero_branch", seed=0)
    network(torch.randn(4, 3, 8, 8)).square().sum().backward()
    for block in network.blocks:
        assert block.branch[-1].weight.grad.abs().sum() > 0


def test_plain_networks_have_no_branch_to_zero():
    network = nets.build("plain-8", seed=0)
    before = [p.clone() for p in network.parameters()]
    zero_branch_(network, reset=False)
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))


def test_other_modules_are_refused_with_a_reason():
    with pytest.raises(UsageError, match=r"block_names\(\)"):
        zero_branch_(nn.Linear(2, 2))
