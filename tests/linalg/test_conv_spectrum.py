import math

import pytest
import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.linalg import conv_singular_values
from bathyscope.linalg.conv_spectrum import circular_spectra
from bathyscope.linalg.norms import spread_about


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


def torch_layer(kernel, stride, dilation, groups, c, d, *, mode="circular", axes=2):
    """A torch layer with torus padding: the oracle shares no code with the spectrum."""
    make = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[axes]
    torch.manual_seed(kernel + 10 * stride + 100 * dilation)
    return make(
        c,
        d,
        kernel,
        stride=stride,
        dilation=dilation,
        groups=groups,
        padding=dilation * (kernel - 1) // 2,
        padding_mode=mode,
        bias=False,
    ).double()


CHANNELS = {"c<d": (4, 8), "c=d": (4, 4), "c>d": (8, 4)}
CASES = [
    (kernel, stride, dilation, groups, size, name)
    for kernel in (1, 3, 5)
    for stride in (1, 2, 3)
    for dilation in (1, 2)
    for groups, name in ((1, "c<d"), (2, "c=d"), (4, "c>d"))
    for size in (stride * 4, stride * 3)
    if dilation * (kernel - 1) + 1 <= size
]


@pytest.mark.parametrize(("kernel", "stride", "dilation", "groups", "size", "name"), CASES)
def test_every_value_against_the_explicit_matrix(kernel, stride, dilation, groups, size, name):
    c, d = CHANNELS[name]
    layer = torch_layer(kernel, stride, dilation, groups, c, d)
    spectrum = conv_singular_values(layer, (size, size))
    exact = torch.linalg.svdvals(explicit(layer, (size, size), c))
    assert spectrum.method == "fourier"
    assert spectrum.values.shape == exact.shape
    assert (spectrum.values - exact).abs().max() <= 1e-10 * exact[0]


@pytest.mark.parametrize("kernel", [2, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [6, (9, 6), (5, 8)])
def test_even_kernels_and_oblong_images(kernel, stride, size):
    # torch pads even kernels unevenly, so the matrix is written out from the definition.
    sizes = (size, size) if isinstance(size, int) else size
    if any(n % stride for n in sizes):
        sizes = tuple(n + -n % stride for n in sizes)
    weight = gaussian(3, 2, kernel, kernel)
    outputs = [n // stride for n in sizes]
    matrix = torch.zeros(3, *outputs, 2, *sizes, dtype=torch.float64)
    for i in range(outputs[0]):
        for j in range(outputs[1]):
            for a in range(kernel):
                for b in range(kernel):
                    y, x = (stride * i + a) % sizes[0], (stride * j + b) % sizes[1]
                    matrix[:, i, j, :, y, x] += weight[:, :, a, b]
    exact = torch.linalg.svdvals(matrix.reshape(3 * math.prod(outputs), -1))
    spectrum = conv_singular_values(weight, sizes, stride=stride)
    assert (spectrum.values - exact).abs().max() <= 1e-10 * exact[0]


@pytest.mark.parametrize(("axes", "size"), [(1, (12,)), (3, (4, 4, 6))])
@pytest.mark.parametrize("stride", [1, 2])
def test_one_and_three_axes(axes, size, stride):
    layer = torch_layer(3, stride, 1, 1, 2, 3, axes=axes)
    exact = torch.linalg.svdvals(explicit(layer, size, 2))
    values = conv_singular_values(layer, size).values
    assert (values - exact).abs().max() <= 1e-10 * exact[0]


def test_linear_layer_and_pointwise_stride_that_does_not_divide():
    linear = nn.Linear(5, 3).double()
    values = conv_singular_values(linear).values
    torch.testing.assert_close(values, torch.linalg.svdvals(linear.weight.detach()))
    pointwise = nn.Conv2d(2, 8, 1, stride=2, bias=False).double()
    exact = torch.linalg.svdvals(explicit(pointwise, (5, 5), 2))
    spectrum = conv_singular_values(pointwise, 5)
    assert spectrum.method == "fourier"
    torch.testing.assert_close(spectrum.values, exact, atol=1e-10, rtol=0)


def test_float32_has_five_digits_even_where_the_gram_matrix_loses_them():
    # Columns scaled from 1 to 1e-4: a float32 Gram matrix holds nothing below 3e-4.
    weight = (
        gaussian(8, 8, 3, 3) * torch.logspace(0, -4, 8, dtype=torch.float64)[None, :, None, None]
    )
    single = weight.float()
    exact = conv_singular_values(single.double(), 8)
    values = conv_singular_values(single, 8)
    assert values.values.dtype == torch.float32
    assert ((values.values.double() - exact.values) / exact.values).abs().max() < 1e-5
    assert exact.condition_number > 1e4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    weight = gaussian(4, 2, 3, 3).to(dtype)
    values = conv_singular_values(weight, 6).values
    assert values.dtype == torch.float32
    torch.testing.assert_close(values, conv_singular_values(weight.float(), 6).values)


def test_chunks_change_nothing(monkeypatch):
    weight = gaussian(4, 2, 3, 3)
    whole = conv_singular_values(weight, 9).values
    monkeypatch.setattr("bathyscope.linalg.conv_spectrum._CHUNK", 24)
    torch.testing.assert_close(conv_singular_values(weight, 9).values, whole, rtol=0, atol=1e-14)


def test_frobenius_identity_and_histogram():
    # Each tap meets each pixel once: Σσ² = n²‖K‖².
    weight = gaussian(4, 3, 3, 3)
    spectrum = conv_singular_values(weight, (6, 5))
    total = 30 * weight.square().sum()
    torch.testing.assert_close(spectrum.values.square().sum(), total)
    assert spectrum.gradient_gain == pytest.approx(math.sqrt(total / (4 * 30)))
    counts, edges = spectrum.histogram(bins=7)
    assert counts.sum() == len(spectrum.values) == 90
    assert len(edges) == 8


def test_an_orthogonal_map_preserves_the_norm():
    q = torch.linalg.qr(gaussian(8, 8)).Q[:, :4] * math.sqrt(2)
    spectrum = conv_singular_values(q[:, :, None, None], 4)
    assert spectrum.target == pytest.approx(math.sqrt(2))
    assert spectrum.spread < 1e-12
    assert spectrum.gradient_gain == pytest.approx(1)
    assert spectrum.condition_number == pytest.approx(1)


def test_stride_leaves_zeros_that_the_effective_condition_number_ignores():
    spectrum = conv_singular_values(nn.Conv2d(2, 8, 1, stride=2).double(), 4)
    assert spectrum.smallest == 0
    assert spectrum.condition_number == math.inf
    assert spectrum.rank == 2 * 4
    assert 1 <= spectrum.effective_condition_number < math.inf


def test_zero_kernel():
    spectrum = conv_singular_values(torch.zeros(2, 2, 3, 3), 4)
    assert (spectrum.largest, spectrum.rank) == (0, 0)
    assert spectrum.condition_number == math.inf
    assert spectrum.spread == math.inf
    assert "0" in repr(spectrum)


def test_spread_of_nothing_is_infinite():
    assert spread_about(torch.zeros(0), 1.0) == math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": nn.BatchNorm2d(3), "size": 4}, "not BatchNorm2d"),
        ({"layer": nn.Conv2d(3, 3, 5), "size": 4}, "larger size"),
        ({"layer": nn.Conv2d(3, 3, 3), "size": None}, "size=(h, w)"),
        ({"layer": nn.Conv2d(3, 3, 3), "size": (4, 4, 4)}, "2 axes"),
        ({"layer": nn.Conv2d(3, 3, 3), "size": 8, "stride": 2}, "its own stride"),
        ({"layer": nn.Conv2d(3, 3, 3), "size": 8, "padding": "valid"}, "does not apply"),
        ({"layer": torch.ones(3, 3, 3, 3), "size": 2}, "larger size"),
        ({"layer": torch.ones(3, 3, 3, 3), "size": 8, "groups": 2}, "2 group(s)"),
        ({"layer": torch.ones(3, 3, 3, 3), "size": 8, "stride": 0}, "at least 1"),
        ({"layer": torch.full((3, 3, 3, 3), math.nan), "size": 8}, "NaN"),
    ],
)
def test_bad_input_is_one_sentence(arguments, message):
    with pytest.raises(UsageError) as caught:
        conv_singular_values(arguments.pop("layer"), arguments.pop("size"), **arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("kernel", [(1, 1), (1, 3), (3, 1)])
def test_an_axis_with_one_tap_is_solved_once(kernel, monkeypatch):
    solved = []
    eigvalsh = torch.linalg.eigvalsh
    monkeypatch.setattr(
        torch.linalg, "eigvalsh", lambda gram: solved.append(len(gram)) or eigvalsh(gram)
    )
    layer = nn.Conv2d(
        2, 4, kernel, padding=tuple(k // 2 for k in kernel), padding_mode="circular", bias=False
    ).double()
    spectrum = conv_singular_values(layer, (6, 8))
    exact = torch.linalg.svdvals(explicit(layer, (6, 8), 2))
    torch.testing.assert_close(spectrum.values, exact)
    assert sum(solved) == {(1, 1): 1, (1, 3): 5, (3, 1): 4}[kernel]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_spectra_of_many_layers_are_those_of_each(dtype):
    torch.manual_seed(0)
    layers = [nn.Conv2d(4, 4, 3, padding=1) for _ in range(3)]
    layers += [nn.Conv2d(4, 12, 3, stride=2, padding=1) for _ in range(2)]
    layers += [nn.Conv2d(4, 8, 3, groups=2) for _ in range(2)]
    layers += [nn.Conv2d(4, 4, 1, groups=2), nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1)]
    layers += [nn.Conv2d(4, 4, 9), nn.Conv2d(4, 4, 3)]
    with torch.no_grad():
        layers[1].weight[0] = layers[1].weight[1]  # values that the Gram matrix loses
        layers[2].weight.zero_()
        layers[4].weight[:, 0] *= 1e-7
        layers[-1].weight[0, 0, 0, 0] = torch.nan
    layers = [layer.to(dtype) for layer in layers]
    sizes = [(8, 8)] * len(layers)
    spectra = circular_spectra(layers, sizes)
    assert [s is None for s in spectra] == [False] * (len(layers) - 2) + [True, True]
    for layer, spectrum in zip(layers[:-2], spectra, strict=False):
        alone = conv_singular_values(layer, size=(8, 8), padding="circular")
        assert (spectrum.method, spectrum.shape) == (alone.method, alone.shape)
        scale = alone.largest or 1.0
        torch.testing.assert_close(spectrum.values, alone.values, rtol=1e-5, atol=1e-6 * scale)
