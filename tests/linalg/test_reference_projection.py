import warnings

import pytest
import torch

from bathyscope.linalg.conv_spectrum import isotropic_target
from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.kernel_projection import (
    exact_projection,
)
from bathyscope.linalg.reference_projection import reference_projection
from bathyscope.linalg.taps import polyphase


def gaussian(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def near_target(weight, **options):
    """Taps close enough to the target for a full Newton–Schulz step."""
    conv = convolution_of(weight, **options)
    target = isotropic_target(conv)
    return exact_projection(polyphase(conv), target), target


def test_reference_agrees_with_the_exact_projection_where_its_iteration_converges():
    # With c ≤ d and a mild condition number ten iterations are enough.
    taps, target = near_target(gaussian(16, 4, 3, 3))
    reference = reference_projection(taps, target, grid=(8, 8))
    exact = exact_projection(taps, target, grid=(8, 8))
    assert (reference.weight - exact.weight).abs().max() < 1e-3 * exact.weight.abs().max()


def test_reference_keeps_the_kernel_in_place():
    # A conjugated spectrum would mirror the kernel and leave its energy in one corner tap.
    taps, target = near_target(gaussian(64, 3, 3, 3))
    result = reference_projection(taps, target, grid=(32, 32))
    energy = result.weight.square().sum((0, 1, 2))
    assert energy.max() / energy.sum() < 0.3
    assert torch.nn.functional.cosine_similarity(result.weight, taps.weight, dim=-1).mean() > 0.9


def test_reference_says_where_ten_iterations_were_too_few():
    conv = convolution_of(gaussian(16, 16, 1, 1))
    taps, target = polyphase(conv), isotropic_target(conv)
    with pytest.warns(UserWarning, match="did not converge"):
        result = reference_projection(taps, target, grid=(8, 8))
    values = torch.linalg.svdvals(result.weight[0].reshape(16, 16)) / target
    assert values.min() < 0.99
    near, target = near_target(gaussian(16, 4, 3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reference_projection(near, target, grid=(8, 8))
