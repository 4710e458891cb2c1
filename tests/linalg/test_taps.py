import torch

from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.taps import compress, frequency_matrices, half_plane, polyphase


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
