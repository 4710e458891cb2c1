"""What belongs to a block."""

import torch
from torch import nn

from bathyscope.core import blocks_of
from bathyscope.core.calls import modules_of, num_parameters, weighted_layers


def test_layers_with_a_matrix_or_a_kernel_are_weighted_and_norms_are_not():
    model = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()),
        nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.LayerNorm(4)),
    )
    blocks = blocks_of(model, torch.zeros(2, 1, 8, 8), blocks=["0", "1"])
    assert [list(weighted_layers(model, block)) for block in blocks] == [["0.0"], ["1.1"]]
    assert list(modules_of(model, blocks[1])) == ["1", "1.0", "1.1", "1.2"]


def test_a_shared_parameter_counts_once():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    assert num_parameters(model) == 18
    model[1].weight = model[0].weight
    assert num_parameters(model) == 9
