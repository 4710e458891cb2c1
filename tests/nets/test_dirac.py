import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.nets import DiracConv2d


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@pytest.mark.parametrize("normalized", [False, True])
def test_identity_when_a_is_one_and_w_zero(kernel_size, normalized):
    layer = DiracConv2d(
        4, 4, kernel_size, padding=kernel_size // 2, bias=False, normalized=normalized
    )
    nn.init.zeros_(layer.weight)
    x = torch.randn(2, 4, 7, 7)
    assert torch.equal(layer(x), x)


def test_effective_weight_by_loops():
    layer = DiracConv2d(3, 5, 3)
    nn.init.normal_(layer.a)
    nn.init.normal_(layer.b)
    expected = torch.empty(5, 3, 3, 3)
    for filter_ in range(5):
        weight = layer.weight[filter_]
        expected[filter_] = layer.b[filter_] * weight / weight.norm()
        if filter_ < 3:
            expected[filter_, filter_, 1, 1] += layer.a[filter_]
    torch.testing.assert_close(layer.effective_weight(), expected)
    x = torch.randn(1, 3, 6, 6)
    torch.testing.assert_close(layer(x), F.conv2d(x, expected, layer.bias))


def test_without_norm_the_weight_is_added():
    layer = DiracConv2d(2, 2, 3, normalized=False)
    difference = layer.effective_weight() - layer.weight
    torch.testing.assert_close(difference[:, :, 1, 1], torch.eye(2))
    assert len(list(layer.parameters())) == 3  # weight, bias, a


def test_the_identity_is_no_state_but_follows_the_device_and_dtype():
    layer = DiracConv2d(2, 2, 3)
    assert "delta" not in layer.state_dict()
    assert layer.double().delta.dtype == torch.float64
