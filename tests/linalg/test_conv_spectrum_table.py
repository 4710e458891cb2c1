"""Every singular value against the matrix of the map, over all options crossed."""

import itertools

import pytest
import torch

from bathyscope.linalg import conv_singular_values

KERNELS, STRIDES, DILATIONS, GROUPS = range(1, 6), range(1, 4), (1, 2), range(1, 5)
CHANNELS = {"c<d": (1, 2), "c=d": (2, 2), "c>d": (3, 2)}  # of a group
SIZES = (9, 10)  # odd and even; each stride divides one of them at most


def on_torus(weight, size, *, stride, dilation, groups):
    """The matrix, entry by entry from y[o] = Σ_t K[t] x[s·o + δ·t mod n]: slow and obvious."""
    out, per_group, *kernel = weight.shape
    locations = list(itertools.product(*(range(0, n, stride) for n in size)))
    pixels = {p: i for i, p in enumerate(itertools.product(*(range(n) for n in size)))}
    matrix = torch.zeros(out, len(locations), per_group * groups, len(pixels), dtype=torch.float64)
    for row, location in enumerate(locations):
        for tap in itertools.product(*(range(k) for k in kernel)):
            pixel = pixels[
                tuple((o + dilation * t) % n for o, t, n in zip(location, tap, size, strict=True))
            ]
            block = weight[(slice(None), slice(None), *tap)]
            for group in range(groups):
                rows = slice(group * out // groups, (group + 1) * out // groups)
                columns = slice(group * per_group, (group + 1) * per_group)
                matrix[rows, row, columns, pixel] += block[rows]
    return matrix.reshape(out * len(locations), -1)


def check(kernel, stride, dilation, *, axes, sizes=SIZES):
    seeded = torch.Generator().manual_seed(kernel + 10 * stride + 100 * dilation)
    for groups, (name, (c, d)), n in itertools.product(GROUPS, CHANNELS.items(), sizes):
        shape = (d * groups, c, *[kernel] * axes)
        weight = torch.randn(*shape, generator=seeded, dtype=torch.float64)
        options = {"stride": stride, "dilation": dilation, "groups": groups}
        exact = torch.linalg.svdvals(on_torus(weight, [n] * axes, **options))
        result = conv_singular_values(weight, [n] * axes, **options)
        case = f"{options}, kernel {kernel}, {name}, size {n}, {result.method}"
        assert result.method == ("fourier" if n % stride == 0 or kernel == 1 else "dense"), case
        assert result.values.shape == exact.shape, case
        assert (result.values - exact).abs().max() <= 1e-10 * exact[0], case


CROSSED = list(itertools.product(KERNELS, STRIDES, DILATIONS))


@pytest.mark.parametrize(("kernel", "stride", "dilation"), CROSSED)
def test_all_options_crossed_on_one_axis(kernel, stride, dilation):
    check(kernel, stride, dilation, axes=1)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "stride", "dilation"), CROSSED)
def test_all_options_crossed_on_two_axes(kernel, stride, dilation):
    check(kernel, stride, dilation, axes=2)


def test_a_large_torus_that_the_stride_does_not_divide_is_bounded(monkeypatch):
    weight = torch.randn(3, 2, 3, 3, dtype=torch.float64)
    dense = conv_singular_values(weight, 7, stride=2)
    monkeypatch.setattr("bathyscope.linalg.conv_spectrum._SMALL", 100)
    bound = conv_singular_values(weight, 7, stride=2)
    assert (dense.method, bound.method) == ("dense", "bound")
    assert (dense.values <= bound.values + 1e-10).all()
    assert (dense.values >= bound.lower - 1e-10).all()
