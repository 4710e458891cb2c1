import pytest
import torch
from torch import nn

from bathyscope.inits import xavier_


@pytest.mark.parametrize(
    ("layer", "mean_fan"),
    [
        (nn.Linear(128, 200), 164),
        (nn.Conv2d(16, 256, 3), 9 * 136),
        (nn.Conv2d(64, 512, 3, groups=4), 9 * 72),
    ],
)
def test_variance(layer, mean_fan):
    """The sample variance of n normal numbers is within 6 √(2/n) but once in 10⁸ times."""
    xavier_(layer, generator=torch.Generator().manual_seed(0))
    ratio = float(layer.weight.detach().var()) * mean_fan
    assert abs(ratio - 1) < 6 * (2 / layer.weight.numel()) ** 0.5
