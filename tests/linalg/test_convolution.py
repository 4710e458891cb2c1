import pytest
import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.linalg.convolution import convolution_of, per_axis, working_dtype


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(2, 4, 5, stride=3, padding=1),
        nn.Conv2d(2, 4, (3, 4), dilation=2, padding="same"),
        nn.Conv3d(2, 4, 3, stride=2, padding="valid"),
        nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1),
        nn.ConvTranspose1d(4, 6, 4, groups=2),
    ],
    ids=repr,
)
def test_sizes_are_those_of_the_layer(layer):
    conv = convolution_of(layer)
    size = tuple(range(9, 9 + len(conv.kernel)))
    output = tuple(layer(torch.zeros(1, layer.in_channels, *size)).shape[2:])
    image = conv.input_size(size)
    if conv.transposed:
        assert (image, conv.output_size(image)) == (output, size)
    else:
        assert (image, conv.output_size(image)) == (size, output)
    channels = (layer.in_channels, layer.out_channels)
    assert conv.channels == (channels if conv.transposed else channels[::-1])


def test_what_is_exact_on_a_torus():
    assert convolution_of(torch.ones(2, 2, 4, 3)).is_periodic
    assert not convolution_of(nn.Conv2d(2, 2, 3, padding_mode="circular")).is_periodic
    assert convolution_of(nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular")).is_periodic
    assert convolution_of(nn.Conv2d(2, 2, 1, stride=2)).is_pointwise
    assert not convolution_of(nn.Conv2d(2, 2, 1, padding=1)).is_pointwise
    assert convolution_of(nn.Linear(2, 2)).is_pointwise


def test_the_weight_is_not_part_of_the_graph():
    assert not convolution_of(nn.Conv2d(2, 2, 3)).weight.requires_grad


def test_one_number_or_one_an_axis():
    assert per_axis((1, 2), 2, "stride") == (1, 2)
    with pytest.raises(UsageError, match="stride=\\(1, 2\\)"):
        per_axis((1, 2), 3, "stride")


def test_half_precisions_are_computed_in_float32():
    assert working_dtype(torch.bfloat16) == torch.float32
    assert working_dtype(torch.float64) == torch.float64
