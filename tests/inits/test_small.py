import torch
from torch import nn

from bathyscope.inits import small_, xavier_


def test_small_is_a_hundredth_of_it():
    large, little = nn.Linear(5, 5), nn.Linear(5, 5)
    xavier_(large, generator=torch.Generator().manual_seed(0))
    small_(little, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(little.weight, 0.01 * large.weight)


def test_small_with_scale_zero_is_zero():
    assert small_(nn.Linear(5, 5), scale=0.0).weight.abs().sum() == 0
