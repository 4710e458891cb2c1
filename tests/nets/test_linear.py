"""The linear networks are the matrices that equations 1 to 8 write down."""

import pytest
import torch

from bathyscope import nets


@pytest.mark.parametrize("width", [1, 5, 16])
def test_plain_and_residual(width):
    for name, identity in [("linear-plain-6", 0.0), ("linear-residual-6", 1.0)]:
        network = nets.build(name, width=width, seed=0)
        matrix = torch.eye(width)
        for block in network.blocks:
            first, second = block.branch
            matrix = (second.weight @ first.weight + identity * torch.eye(width)) @ matrix
        x = torch.randn(4, width)
        torch.testing.assert_close(network(x), x @ matrix.T)


@pytest.mark.parametrize("paths", [1, 3])
def test_aggregated(paths):
    network = nets.build("linear-aggregated-4", width=5, paths=paths, seed=0)
    matrix = torch.eye(5)
    for block in network.blocks:
        assert len(block.branch.paths) == paths
        total = sum(second.weight @ first.weight for first, second in block.branch.paths)
        matrix = (total + torch.eye(5)) @ matrix
    x = torch.randn(4, 5)
    torch.testing.assert_close(network(x), x @ matrix.T)


def test_a_single_path_is_the_residual_network():
    one = nets.build("linear-aggregated-8", paths=1, seed=0)
    residual = nets.build("linear-residual-8", seed=0)
    x = torch.randn(4, 16)
    torch.testing.assert_close(one(x), residual(x))
