import pytest
import torch

from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.taps import compress, frequency_matrices, half_plane, polyphase, tap_products


def test_transform_equals_the_fft():
    weight = torch.randn(3, 2, 3, 3, dtype=torch.float64)
    taps = polyphase(convolution_of(weight))
    plane = half_plane(taps.layout.offsets, (6, 5))
    matrices = frequency_matrices(taps.weight, plane.analysis)[:, 0]
    reference = torch.fft.ifft2(weight, s=(6, 5), norm="forward").permute(2, 3, 0, 1).flatten(0, 1)
    kept = [min((reference - m).abs().amax((1, 2))) for m in matrices]
    assert max(kept) < 1e-13
    assert plane.multiplicity.sum() == 30


def test_synthesis_inverts_analysis():
    taps = polyphase(convolution_of(torch.randn(3, 2, 3, 3, dtype=torch.float64)))
    plane = half_plane(taps.layout.offsets, (4, 5))
    torch.testing.assert_close(plane.synthesis @ plane.analysis, torch.eye(9).double())


def test_polyphase_and_back_is_the_kernel():
    for stride, dilation in ((1, 1), (2, 1), (3, 2), (2, 2)):
        conv = convolution_of(torch.randn(4, 2, 5, 3), stride=stride, dilation=dilation, groups=2)
        taps = polyphase(conv)
        assert torch.equal(taps.to_kernel(), conv.weight)


def test_with_weight_cuts_what_is_no_tap():
    taps = polyphase(convolution_of(torch.randn(4, 2, 3, 3), stride=2))
    full = taps.with_weight(torch.ones_like(taps.weight))
    assert full.weight.sum() == 4 * 2 * 9
    assert full.weight.numel() > full.weight.sum()


def test_common_factors_of_dilation_are_taken_out():
    taps = polyphase(convolution_of(torch.randn(4, 2, 3, 3), dilation=(2, 3)))
    assert taps.layout.span == (5, 7)
    assert compress(taps).layout.span == (3, 3)
    assert compress(taps).layout.alias_free_grid == (5, 5)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((5, 3, 3, 3), {}),
        ((3, 5, 3), {}),
        ((4, 2, 3, 3), {"groups": 2}),
        ((6, 2, 3, 2), {"stride": 2}),
    ],
)
def test_products_of_taps_transform_to_gram_matrices(shape, options):
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    taps = polyphase(convolution_of(weight, **options))
    grid = (5, 4)[: len(shape) - 2]
    products = tap_products(taps)
    result = frequency_matrices(products.weight, half_plane(products.layout.offsets, grid).analysis)
    for P, gram in zip(
        frequency_matrices(taps.weight, half_plane(taps.layout.offsets, grid).analysis),
        result,
        strict=True,
    ):
        for matrix, product in zip(P, gram, strict=True):
            wide = matrix.shape[0] < matrix.shape[1]
            expected = (matrix @ matrix.mH).conj() if wide else matrix.mH @ matrix
            torch.testing.assert_close(product, expected, rtol=0, atol=1e-12)
