"""The networks compute what equations 1 to 9 say, written out."""

import pytest
import torch

from bathyscope.core import Droppable, UsageError, blocks_of, drop_branch
from bathyscope.nets.nest import prediction_of
from bathyscope.nets.nest_convert import prediction_weights
from bathyscope.nets.nest_vectors import aresnest, densenest, resnest

x = torch.randn(9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_resnest_is_equation_1_and_2():
    network = resnest(6, 3, width=11, feature_sizes=[4, 2, 5]).double()
    x_i = x @ network.expansion.weight.T + network.expansion.bias
    features = [torch.cat([x, torch.ones(9, 1, dtype=x.dtype)], dim=1)]
    for block in network.blocks:
        features.append(block.function(x_i))
        x_i = x_i + features[-1] @ block.mix.weight.T
    torch.testing.assert_close(network(x), x_i @ network.output.weight.T)
    torch.testing.assert_close(network.representations(x)[-1], x_i)
    for result, expected in zip(network.features(x), features, strict=True):
        torch.testing.assert_close(result, expected)
    # equation 2: the output is linear in the features
    torch.testing.assert_close(prediction_of(features, prediction_weights(network)), network(x))


def test_resnest_without_blocks_is_linear():
    network = resnest(6, 3, width=4, feature_sizes=[], intercept=False).double()
    torch.testing.assert_close(network(x), x @ (network.output.weight @ network.expansion.weight).T)
    assert len(network.features(x)) == 1


def test_aresnest_is_equation_4():
    network = aresnest(6, 3, width=8, feature_sizes=[4, 2]).double()
    v = network.features(x)
    weights = [head.weight for head in network.heads]
    weights[0] = torch.cat([weights[0], network.heads[0].bias[:, None]], dim=1)
    torch.testing.assert_close(network(x), prediction_of(v, weights))
    names = {name for name, _ in network.named_parameters()}
    assert not any("output" in name or "blocks.1" in name for name in names)  # no W_L, no W_{L+1}


def test_densenest_is_equations_8_and_9():
    network = densenest(6, 3, feature_sizes=[4, 2]).double()
    first = network.blocks[0].function(x)
    second = network.blocks[1].function(torch.cat([x, first], dim=1))
    expected = network.output(torch.cat([x, first, second], dim=1))
    torch.testing.assert_close(network(x), expected)
    assert [v.shape[1] for v in network.features(x)] == [7, 4, 2]


@pytest.mark.parametrize(
    "network",
    [
        resnest(6, 3, width=8, feature_sizes=[4, 2]),
        aresnest(6, 3, width=8, feature_sizes=[4, 2]),
        densenest(6, 3, feature_sizes=[4, 2]),
    ],
    ids=["resnest", "aresnest", "densenest"],
)
def test_blocks_are_declared_and_can_be_dropped(network):
    network = network.double()
    blocks = blocks_of(network, x)
    assert [b.name for b in blocks] == network.block_names()
    assert blocks[0].droppable
    before = network(x)
    with drop_branch(network, blocks[0]):
        assert not torch.equal(network(x), before)
    torch.testing.assert_close(network(x), before)
    assert isinstance(network.blocks[0], Droppable)


def test_functions_may_be_any_module():
    functions = [torch.nn.Sequential(torch.nn.Linear(8, 3), torch.nn.Tanh(), torch.nn.Linear(3, 4))]
    network = resnest(6, 1, width=8, feature_sizes=[4], functions=functions).double()
    assert network(x).shape == (9, 1)


def test_bad_sizes_are_said():
    with pytest.raises(UsageError, match="at least 1"):
        resnest(6, 3, width=0, feature_sizes=[4])
    with pytest.raises(UsageError, match="one function for each block"):
        densenest(6, 3, feature_sizes=[4, 4], functions=[torch.nn.Identity()])
    with pytest.raises(UsageError, match="at least one feature size"):
        aresnest(6, 3, width=5, feature_sizes=[])


def test_one_feature_is_enough():
    assert resnest(1, 1, width=1, feature_sizes=[1])(torch.ones(2, 1)).shape == (2, 1)
