import pytest
import torch
from torch import nn

from bathyscope.inits import he_


@pytest.mark.parametrize(
    ("layer", "fan_in"),
    [
        (nn.Linear(128, 200), 128),
        (nn.Conv2d(16, 256, 3), 144),
        (nn.Conv2d(64, 512, 3, groups=4), 144),
    ],
)
def test_variance(layer, fan_in):
    """The sample variance of n normal numbers is within 6 √(2/n) but once in 10⁸ times."""
    he_(layer, generator=torch.Generator().manual_seed(0))
    ratio = float(layer.weight.detach().var()) * fan_in / 2
    assert abs(ratio - 1) < 6 * (2 / layer.weight.numel()) ** 0.5


def test_signal_keeps_its_size_through_relu_layers():
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(*(m for _ in range(20) for m in (nn.Linear(512, 512), nn.ReLU())))
    x = torch.randn(16, 512, generator=generator)
    ratio = he_(model, generator=generator)(x).norm() / x.norm()
    assert 0.3 < ratio < 2
