import math

import pytest
import torch
from torch import nn

from bathyscope.linalg import conv_singular_values
from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.padded_operator import PaddedOperator


def gaussian(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def explicit(layer, size, in_channels):
    """The matrix of a layer, one column for each unit image: slow and obvious."""
    basis = torch.eye(in_channels * math.prod(size), dtype=torch.float64)
    with torch.no_grad():
        outputs = layer(basis.view(-1, in_channels, *size)) - layer(
            torch.zeros(1, in_channels, *size, dtype=torch.float64)
        )
    return outputs.flatten(1).T


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 4, 3, padding=1),
        nn.Conv2d(4, 2, 3, padding=1, stride=2),
        nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2),
        nn.Conv2d(2, 3, 4, padding="same"),
        nn.Conv2d(2, 3, 3),
        nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(2, 3, 3, padding=2, padding_mode="replicate", stride=3),
        nn.Conv2d(2, 3, 3, padding=0, padding_mode="circular"),
        nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1),
        nn.ConvTranspose2d(2, 4, 4, stride=2),
    ],
    ids=repr,
)
def test_padding_bound_holds_and_matrix_free_is_exact(layer, monkeypatch):
    layer = layer.double()
    channels, size = layer.in_channels, (7, 8)
    exact = torch.linalg.svdvals(explicit(layer, size, channels))
    small = conv_singular_values(layer, size)
    assert small.method == "dense"  # point 1 of the hostile trial: exact where the map is small
    assert (small.values - exact).abs().max() <= 1e-10 * exact[0]
    monkeypatch.setattr("bathyscope.linalg.conv_spectrum._SMALL", 0)
    bound = conv_singular_values(layer, size)
    assert bound.method == "bound"
    assert bound.padding == layer.padding_mode
    assert bound.lower is not None
    assert (exact <= bound.values + 1e-10).all()
    assert (exact >= bound.lower - 1e-10).all()
    assert math.isnan(bound.spread)  # point 1: neither a value nor a bound comes of upper bounds
    assert math.isnan(bound.effective_condition_number)
    assert bound.rank >= small.rank
    assert "spread" not in repr(bound)
    true = conv_singular_values(layer, size, method="matrix-free")
    assert true.complete
    assert true.shape == (len(explicit(layer, size, channels)), channels * 56)
    assert (true.values - exact).abs().max() <= 1e-6 * exact[0]


def test_extremes_of_a_map_too_large_to_write_down(monkeypatch):
    monkeypatch.setattr("bathyscope.linalg.padded_operator._DENSE", 100)
    layer = nn.Conv2d(2, 5, 3, padding=1, bias=False).double()
    exact = torch.linalg.svdvals(explicit(layer, (8, 8), 2))
    spectrum = conv_singular_values(layer, 8, method="matrix-free", num=3)
    assert not spectrum.complete
    assert math.isnan(spectrum.spread)
    wanted = torch.cat([exact[:3], exact[-3:]])
    assert (spectrum.values - wanted).abs().max() <= 1e-6 * exact[0]


def test_transposed_convolution_on_a_torus_is_the_adjoint():
    layer = nn.ConvTranspose2d(6, 2, 3, stride=2, padding=1).double()
    spectrum = conv_singular_values(layer, 4, padding="circular")
    conv = convolution_of(layer, padding="circular")
    exact = torch.linalg.svdvals(PaddedOperator(conv, (8, 8)).dense())
    torch.testing.assert_close(spectrum.values, exact)
    assert spectrum.shape == (2 * 64, 6 * 16)


def test_zero_padding_has_another_spectrum_than_the_torus():
    weight = gaussian(4, 4, 3, 3)
    torus = conv_singular_values(weight, 8)
    zeros = conv_singular_values(weight, 8, padding="zeros", method="matrix-free")
    assert (torus.padding, zeros.padding) == ("circular", "zeros")
    assert (torus.values - zeros.values).abs().max() > 0.05 * torus.largest


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "mode"),
    [(4, 2, 1, "circular"), (2, 2, 0, "zeros"), (5, 3, 1, "circular"), (4, 4, 0, "reflect")],
)
def test_a_strided_map_with_n_over_s_outputs_is_exact_on_the_torus(kernel, stride, padding, mode):
    torch.manual_seed(0)
    layer = nn.Conv2d(2, 3, kernel, stride=stride, padding=padding, padding_mode=mode).double()
    result = conv_singular_values(layer, (4 * stride, 3 * stride))
    assert result.method == "fourier"
    exact = torch.linalg.svdvals(explicit(layer, (4 * stride, 3 * stride), 2))
    assert (result.values - exact).abs().max() <= 1e-10 * exact[0]


def test_the_example_of_all_ones():
    layer = nn.Conv1d(1, 2, 4, stride=2, padding=1, padding_mode="circular", bias=False).double()
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, 0, 1] = layer.weight[1, 0, 2] = 1.0
    result = conv_singular_values(layer, 8)
    assert result.values.tolist() == pytest.approx([1.0] * 8)
