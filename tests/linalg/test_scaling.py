import math

import pytest
import torch

from bathyscope.linalg.norms import rescale


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ordinary_tensors_are_handed_through(dtype):
    tensor = torch.randn(5, dtype=dtype)
    same, unit = rescale(tensor)
    assert unit == 1
    assert same.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float32, s) for s in (1e-44, 1e-30, 1e30, 3e38)]
    + [(torch.float64, s) for s in (1e-310, 1e-200, 1e200, 1.7e308)],
)
def test_extreme_tensors_come_to_one_and_can_be_put_back(dtype, scale):
    tensor = torch.tensor([scale, -scale / 2, 0.0], dtype=dtype)
    small, unit = rescale(tensor)
    assert 1 <= small.abs().max() < 2
    assert math.frexp(unit)[0] == 0.5  # a power of two: no rounding
    torch.testing.assert_close((small.double() * unit).to(dtype), tensor)


def test_zeros_empties_halves_and_what_is_non_finite():
    assert rescale(torch.zeros(3))[1] == rescale(torch.zeros(0))[1] == 0
    assert rescale(torch.tensor([1.0, math.inf]))[1] == math.inf
    assert math.isnan(rescale(torch.tensor([1.0, math.nan]))[1])
    assert rescale(torch.ones(2, dtype=torch.bfloat16))[0].dtype == torch.float32
