import pytest
import torch
from torch import nn

from bathyscope.inits.layers import fans, group_weights, middle_taps, weight_layers


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(6, 10),
        nn.Conv2d(6, 10, 3),
        nn.Conv2d(8, 16, 3, groups=4),
        nn.Conv1d(4, 6, 5),
        nn.ConvTranspose2d(6, 10, 3),
        nn.ConvTranspose2d(8, 16, 3, groups=2),
    ],
)
def test_fans_count_the_connections_of_the_middle_of_an_image(layer):
    """Weights of one: an output sums its inputs, and the gradient of an input sums its outputs."""
    size = (9,) * max(0, layer.weight.ndim - 2)
    channels = getattr(layer, "in_channels", None) or layer.in_features
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    x = torch.ones(1, channels, *size, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert fans(layer) == (int(y.max()), int(x.grad.max()))


def test_only_layers_with_weights_are_filled():
    model = nn.Sequential(
        nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.Embedding(3, 2), nn.Linear(2, 2)
    )
    assert [type(layer) for layer in weight_layers(model)] == [nn.Conv2d, nn.Linear]


def test_a_shared_layer_is_met_once():
    layer = nn.Linear(2, 2)
    assert len(list(weight_layers(nn.ModuleList([layer, layer])))) == 1


def test_views_write_through():
    conv = nn.Conv2d(4, 4, 3, groups=2)
    for weight in group_weights(conv):
        middle_taps(weight).fill_(7)
    assert (conv.weight[:, :, 1, 1] == 7).all()
    assert (conv.weight[:, :, 0] != 7).all()
