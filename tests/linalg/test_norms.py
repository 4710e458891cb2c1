import math

import pytest
import torch

from bathyscope.linalg.norms import frobenius_norm


@pytest.mark.parametrize("shape", [(), (5,), (4096,), (3, 5000), (2, 3, 4, 1000)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_agrees_with_the_sum_of_squares_in_float64(shape, dtype):
    tensor = torch.randn(shape, dtype=torch.float64).to(dtype)
    exact = math.sqrt((tensor.double() ** 2).sum().item())
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    assert frobenius_norm(tensor) == pytest.approx(exact, rel=tolerance)


def test_a_long_float32_tensor_keeps_its_digits():
    tensor = torch.randn(2**22, generator=torch.Generator().manual_seed(0))
    exact = tensor.double().norm().item()
    assert frobenius_norm(tensor) == pytest.approx(exact, rel=1e-6)
    assert tensor.norm().item() != pytest.approx(exact, rel=1e-6)  # why it is summed in runs


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e30, 3e38])
def test_float32_squares_neither_overflow_nor_vanish(scale):
    tensor = torch.full((5,), scale)
    assert frobenius_norm(tensor) == pytest.approx(tensor[0].item() * math.sqrt(5), rel=1e-6)


def test_float64_extremes_zeros_empties_and_what_is_non_finite():
    assert frobenius_norm(torch.full((4,), 1e200, dtype=torch.float64)) == pytest.approx(2e200)
    assert frobenius_norm(torch.zeros(3)) == frobenius_norm(torch.zeros(0)) == 0
    assert frobenius_norm(torch.tensor([1.0, -math.inf])) == math.inf
    assert math.isnan(frobenius_norm(torch.tensor([1.0, math.nan])))


def test_strided_tensors():
    tensor = torch.randn(60, 200, dtype=torch.float64)[::2, ::3].T
    assert frobenius_norm(tensor) == pytest.approx(tensor.norm().item(), rel=1e-12)
