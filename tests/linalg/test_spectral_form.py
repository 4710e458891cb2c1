import pytest
import torch

from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.polar import polar_factor
from bathyscope.linalg.spectral_form import spectral_form
from bathyscope.linalg.taps import frequency_matrices, half_plane, polyphase


def gaussian(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("groups", [1, 2])
def test_the_gram_matrices_and_the_polar_factor_are_those_of_every_frequency(groups):
    taps = polyphase(convolution_of(gaussian(8, 2, 3, 3), groups=groups))
    form = spectral_form(taps.weight, 1.5, taps.layout.offsets, (8, 8))
    plane = half_plane(taps.layout.offsets, (8, 8))
    p = frequency_matrices(taps.weight, plane.analysis)
    gram = (p.mH @ p).flatten(0, 1)
    torch.testing.assert_close(form.excess + 1.5**2 * torch.eye(2), gram.real)
    torch.testing.assert_close(form.imaginary, gram.imag)
    polar = polar_factor(p, method="svd")
    parts = torch.stack([polar.real, polar.imag]).reshape(2 * len(plane), -1)
    expected = (plane.synthesis @ parts).T.unflatten(0, taps.weight.shape[:3])
    torch.testing.assert_close(form.polar(), expected)


def test_no_polar_factor_of_a_gram_matrix_that_lost_its_digits():
    weight = gaussian(8, 4, 3, 3)
    weight[:, 0] *= 1e-9
    taps = polyphase(convolution_of(weight))
    assert spectral_form(taps.weight, 1.0, taps.layout.offsets, (8, 8)).polar() is None
