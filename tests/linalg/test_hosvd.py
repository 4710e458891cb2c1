import math

import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.linalg.hosvd import aggregate, hosvd_of

SHAPES = [(5, 7), (4, 6, 3), (8, 4, 5, 5), (3, 20, 2, 2), (2, 3, 4, 2, 3), (90, 4, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_mode_agrees_with_the_explicit_unfolding(shape):
    tensor = torch.randn(shape, dtype=torch.float64)
    for mode, result in enumerate(hosvd_of(tensor)):
        values = torch.linalg.svdvals(tensor.movedim(mode, 0).reshape(shape[mode], -1))
        torch.testing.assert_close(
            result.singular_values, values, rtol=0, atol=1e-10 * values[0].item()
        )


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_agrees_with_tensorly(shape):
    tensorly = pytest.importorskip("tensorly")
    tensorly.set_backend("pytorch")
    tensor = torch.randn(shape, dtype=torch.float64).relu()
    for mode, result in enumerate(hosvd_of(tensor)):
        unfolding = tensorly.unfold(tensor, mode)
        values = tensorly.tenalg.svd_interface(unfolding, n_eigenvecs=min(unfolding.shape))[1]
        torch.testing.assert_close(
            result.singular_values, values, rtol=0, atol=1e-10 * values[0].item()
        )


def test_low_multilinear_rank_is_found_to_ten_digits():
    core = torch.randn(2, 3, 2, dtype=torch.float64)
    factors = [torch.randn(n, r, dtype=torch.float64) for n, r in ((9, 2), (8, 3), (7, 2))]
    tensor = torch.einsum("abc,ia,jb,kc->ijk", core, *factors)
    for mode, (result, rank) in enumerate(zip(hosvd_of(tensor), (2, 3, 2), strict=True)):
        values = torch.linalg.svdvals(tensor.movedim(mode, 0).flatten(1))
        torch.testing.assert_close(
            result.singular_values, values, rtol=0, atol=1e-10 * values[0].item()
        )
        assert (result.rank, result.condition_number) == (rank, math.inf)


def test_squares_sum_to_the_squared_norm_in_every_mode():
    tensor = torch.randn(4, 5, 6, dtype=torch.float64)
    for result in hosvd_of(tensor):
        assert (result.singular_values**2).sum().item() == pytest.approx((tensor**2).sum().item())


def test_modes_are_returned_in_the_order_asked_and_checked():
    tensor = torch.randn(2, 3, 4)
    assert [len(c.singular_values) for c in hosvd_of(tensor, modes=(2, 0))] == [4, 2]
    with pytest.raises(UsageError, match="Mode 3 was asked of a tensor of 3 axes"):
        hosvd_of(tensor, modes=(3,))


def test_aggregates_by_name():
    singular = torch.zeros(2, 3, 3, dtype=torch.float64)
    singular[0, 0, 0], singular[1, 1, 1] = 6, 3
    modes = hosvd_of(singular)
    assert aggregate(modes, how="max") == aggregate(modes, how="mean") == math.inf
    assert aggregate(modes, how="geometric mean") == math.inf
    assert aggregate(modes, how="min") == pytest.approx(2)
    regular = hosvd_of(torch.randn(3, 4, 5, dtype=torch.float64))
    numbers = [c.condition_number for c in regular]
    assert aggregate(regular, how="mean") == pytest.approx(sum(numbers) / 3)
    assert aggregate(regular, how="geometric mean") == pytest.approx(math.prod(numbers) ** (1 / 3))
    assert math.isnan(aggregate([]))
