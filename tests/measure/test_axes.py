import pytest
import torch
from torch import nn

from bathyscope.core import blocks_of
from bathyscope.measure.rows import axes_of


def axes(model, x, ndim):
    return axes_of(model, blocks_of(model, x)[0], ndim=ndim)


@pytest.mark.parametrize(
    ("layer", "shape", "ndim", "names", "units"),
    [
        (nn.Linear(4, 3), (2, 4), 2, ("samples", "features"), 1),
        (nn.Linear(4, 3), (2, 5, 4), 3, ("samples", "tokens", "features"), 2),
        (nn.Conv1d(4, 3, 1), (2, 4, 5), 3, ("samples", "channels", "length"), 1),
        (nn.Conv2d(4, 3, 1), (2, 4, 5, 5), 4, ("samples", "channels", "height", "width"), 1),
        (nn.Linear(4, 3), (2, 5, 5, 4), 4, ("samples", "height", "width", "channels"), 3),
        (
            nn.Conv3d(4, 3, 1),
            (2, 4, 5, 5, 5),
            5,
            ("samples", "channels", "depth", "height", "width"),
            1,
        ),
    ],
)
def test_axes_follow_the_layers_of_the_block(layer, shape, ndim, names, units):
    result = axes(nn.Sequential(layer), torch.randn(shape), ndim)
    assert (result.names, result.units, result.samples) == (names, units, 0)


def test_samples_come_second_where_a_layer_says_so():
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False
    )
    result = axes(encoder, torch.randn(5, 3, 8), 3)
    assert result.names == ("tokens", "samples", "features")
    assert result.samples == 1
    first = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    assert axes(first, torch.randn(3, 5, 8), 3).samples == 0
