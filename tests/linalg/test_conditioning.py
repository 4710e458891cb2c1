import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bathyscope.core.errors import UsageError
from bathyscope.linalg.conditioning import (
    Conditioning,
    conditioning_of,
    conditioning_of_many,
    rounding_tolerance,
)


def with_spectrum(values, columns, *, seed=0):
    """A float64 matrix with exactly these singular values."""
    generator = torch.Generator().manual_seed(seed)
    rows = len(values)
    left = torch.linalg.qr(torch.randn(rows, rows, dtype=torch.float64, generator=generator)).Q
    right = torch.linalg.qr(torch.randn(columns, rows, dtype=torch.float64, generator=generator)).Q
    return left @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ right.T


@pytest.mark.parametrize("shape", [(6, 6), (4, 50), (50, 4), (1, 9), (9, 1)])
def test_agrees_with_svdvals_in_float64(shape):
    matrix = torch.randn(shape, dtype=torch.float64)
    values = torch.linalg.svdvals(matrix)
    result = conditioning_of(matrix)
    assert result.how in ("gram", "svd")
    torch.testing.assert_close(result.singular_values, values, rtol=1e-9, atol=0)
    assert result.condition_number == pytest.approx((values[0] / values[-1]).item(), rel=1e-8)
    assert result.stable_rank == pytest.approx(((values / values[0]) ** 2).sum().item(), rel=1e-12)
    assert result.rank == torch.linalg.matrix_rank(matrix).item() == min(shape)


@pytest.mark.parametrize("smallest", [1e-1, 1e-3, 1e-5, 1e-7, 1e-10, 1e-13])
def test_condition_number_is_right_over_thirteen_decades_in_float64(smallest):
    matrix = with_spectrum([1.0, 0.5, smallest], 40)
    # the matrix itself is only built to an ε of float64 relative to its largest value
    accuracy = max(1e-7, 1e-15 / smallest)
    assert conditioning_of(matrix).condition_number == pytest.approx(1 / smallest, rel=accuracy)
    assert conditioning_of(matrix).rank == 3


@settings(max_examples=60, deadline=None)
@given(
    exponent=st.floats(-5.5, 0),
    rows=st.integers(2, 24),
    columns=st.integers(24, 3000),
    seed=st.integers(0, 10_000),
)
def test_float32_error_stays_within_the_bound_it_reports(exponent, rows, columns, seed):
    matrix = with_spectrum(torch.logspace(0, exponent, rows).tolist(), columns, seed=seed).float()
    exact = torch.linalg.svdvals(matrix.double())
    result = conditioning_of(matrix)
    assert result.error <= 1e-2
    true = (exact[0] / exact[-1]).item()
    # eigvalsh itself adds a few ε of float64 to what the Gram matrix lost
    assert abs(result.condition_number / true - 1) <= result.error + 1e-9


def test_ladder_climbs_only_as_far_as_it_must():
    well = with_spectrum([1.0, 0.9, 0.5], 100)
    ill = with_spectrum([1.0, 0.9, 1e-4], 100)
    assert conditioning_of(well.float()).how == "gram"
    assert conditioning_of(ill.float()).how == "gram in float64"
    assert conditioning_of(well).how == "gram"
    assert conditioning_of(with_spectrum([1.0, 0.9, 1e-9], 100)).how == "svd"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_exact_low_rank_is_infinite_with_its_rank(dtype):
    matrix = torch.zeros(8, 30, dtype=dtype)
    matrix[:3, :3] = torch.diag(torch.tensor([4.0, 2.0, 1.0])).to(dtype)
    result = conditioning_of(matrix)
    assert (result.rank, result.condition_number) == (3, math.inf)
    assert result.effective_condition_number == pytest.approx(4.0, rel=1e-6)
    assert result.stable_rank == pytest.approx(21 / 16, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_low_rank_up_to_rounding_is_infinite(dtype):
    generator = torch.Generator().manual_seed(1)
    for columns in (40, 5000):
        factors = [
            torch.randn(s, dtype=dtype, generator=generator) for s in ((40, 5), (5, columns))
        ]
        result = conditioning_of(factors[0] @ factors[1])
        assert (result.rank, result.condition_number) == (5, math.inf)


def test_cutoff_decides_the_rank_and_travels_with_it():
    matrix = with_spectrum([1.0, 1e-2, 1e-4], 20)
    for tolerance, rank in ((1e-5, 3), (1e-3, 2), (1e-1, 1), (0.0, 3)):
        result = conditioning_of(matrix, tolerance=tolerance)
        assert (result.rank, result.tolerance) == (rank, tolerance)
    assert conditioning_of(matrix).tolerance == rounding_tolerance(3, 20, torch.float64)


def test_a_value_at_the_cutoff_is_cut_and_just_above_it_is_kept():
    for dtype in (torch.float32, torch.float64):
        for smallest, rank in ((0.99e-3, 1), (1.01e-3, 2)):
            matrix = torch.diag(torch.tensor([1.0, smallest], dtype=dtype))
            assert conditioning_of(matrix, tolerance=1e-3).rank == rank


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-30, 1e30, 1e200, 1e300])
def test_condition_number_does_not_depend_on_scale(scale):
    dtype = torch.float32 if 1e-38 < scale < 1e38 else torch.float64
    base = with_spectrum([1.0, 0.5, 0.1], 30)
    result = conditioning_of((base * scale).to(dtype))
    assert result.condition_number == pytest.approx(10, rel=1e-5)
    assert result.singular_values[0].item() == pytest.approx(scale, rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 9), columns=st.integers(1, 9), seed=st.integers(0, 1000))
def test_invariant_under_transpose_and_permutation(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
    shuffled = matrix[torch.randperm(rows, generator=generator)]
    numbers = [conditioning_of(m).condition_number for m in (matrix, matrix.T, shuffled)]
    assert numbers[1:] == pytest.approx([numbers[0]] * 2, rel=1e-6)
    assert 1 <= conditioning_of(matrix).stable_rank <= min(rows, columns) * (1 + 1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_entries_give_no_number(bad):
    matrix = torch.ones(4, 5)
    matrix[2, 3] = bad
    result = conditioning_of(matrix)
    assert result.rank is None
    assert result.how == "non-finite"
    assert math.isnan(result.condition_number)
    assert math.isnan(result.stable_rank)


def test_zero_and_empty_matrices():
    zero = conditioning_of(torch.zeros(3, 7))
    assert (zero.rank, zero.condition_number, zero.stable_rank) == (0, math.inf, 0.0)
    empty = conditioning_of(torch.zeros(0, 7))
    assert empty.rank == 0
    assert math.isnan(empty.condition_number)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match="matrix or tensor of real numbers"):
        conditioning_of(torch.tensor(1.0))
    with pytest.raises(UsageError, match=r"tolerance is 1\.5"):
        conditioning_of(torch.ones(2, 2), tolerance=1.5)


def test_given_values_in_any_order():
    result = Conditioning.of_singular_values(torch.tensor([1.0, 8.0, 2.0]), tolerance=0.0)
    assert (result.condition_number, result.how) == (8.0, "given")


def test_a_value_at_the_cutoff_counts_as_zero():
    result = Conditioning.of_singular_values(torch.tensor([4.0, 2.0, 1.0]), tolerance=0.25)
    assert (result.rank, result.effective_condition_number) == (2, 2.0)
    assert result.condition_number == math.inf
    just_below = Conditioning.of_singular_values(torch.tensor([4.0, 2.0, 1.0]), tolerance=0.2499)
    assert (just_below.rank, just_below.condition_number) == (3, 4.0)
    matrix = torch.diag(torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64))
    assert conditioning_of(matrix, tolerance=0.25).rank == 2
    assert conditioning_of(matrix, tolerance=0.2499).rank == 3


def test_cutoffs_lie_from_zero_to_below_one():
    assert conditioning_of(torch.eye(2), tolerance=0.0).rank == 2
    for tolerance in (1.0, -1e-9, 2.0):
        with pytest.raises(UsageError, match=r"must lie in|at least 0"):
            conditioning_of(torch.eye(2), tolerance=tolerance)


def test_a_value_within_rounding_of_the_cutoff_is_decided_in_more_digits():
    """The Gram matrix of float32 cannot show which side of the tolerance it lies on; float64 can."""
    tolerance = 1e-3
    for factor, rank in ((1 + 2e-5, 2), (1 - 2e-5, 1)):
        matrix = torch.diag(torch.tensor([1.0, tolerance * factor]))
        result = conditioning_of(matrix, tolerance=tolerance, accuracy=1e9)
        assert (result.rank, result.how) == (rank, "gram in float64")


def test_the_cutoff_is_relative_to_the_largest_value_whatever_it_is():
    """A spectrum far from one, its second value too near the tolerance for float32 to decide."""
    for factor, rank in ((1 + 2e-6, 2), (1 - 2e-6, 1)):
        matrix = with_spectrum([30.0, 3.0 * factor], 400).float()
        result = conditioning_of(matrix, tolerance=0.1, accuracy=1e9)
        assert (result.rank, result.how) == (rank, "gram in float64")


def unlike_matrices():
    """Several of one shape, among them all that a single Gram matrix cannot decide."""
    generator = torch.Generator().manual_seed(3)
    usual = [torch.randn(6, 9, generator=generator) for _ in range(3)]
    broken = usual[0].clone()
    broken[2, 3] = math.nan
    infinite = usual[1].clone()
    infinite[0, 0] = math.inf
    singular = with_spectrum([1.0, 0.7, 0.4, 1e-5, 1e-9, 0.0], 9).float()
    near_the_cut = with_spectrum([1.0, 0.7, 0.4, 0.2, 0.1, 2.9e-7], 9).float()
    extreme = [1e-30 * usual[0], 1e30 * usual[1], torch.zeros(6, 9)]
    return [*usual, broken, infinite, singular, near_the_cut, *extreme]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mode", [0, 1])
def test_many_together_are_as_one_by_one(dtype, mode):
    tensors = [t.to(dtype) for t in unlike_matrices()]
    tensors += [torch.randn(2, 5, 3).to(dtype), torch.randn(2, 5, 3).to(dtype)]
    tensors += [
        torch.ones(4, 1).to(dtype),
        torch.zeros(0, 3).to(dtype),
        torch.zeros(0, 3).to(dtype),
    ]
    if dtype == torch.float64:
        tensors += [1e-200 * tensors[0], 1e200 * tensors[1]]
    for tolerances in (None, [1e-3] * len(tensors)):
        together = conditioning_of_many(tensors, mode=mode, tolerances=tolerances)
        for i, (tensor, result) in enumerate(zip(tensors, together, strict=True)):
            alone = conditioning_of(tensor, mode=mode, tolerance=tolerances and tolerances[i])
            assert (result.rank, result.tolerance) == (alone.rank, alone.tolerance)
            within = {"rel": result.error + alone.error + 1e-9, "nan_ok": True}
            for name in ("condition_number", "effective_condition_number", "stable_rank"):
                assert getattr(result, name) == pytest.approx(getattr(alone, name), **within), name
            torch.testing.assert_close(
                result.singular_values,
                alone.singular_values,
                rtol=1e-6,
                atol=1e-6 * float(alone.singular_values[:1].nan_to_num().sum()),
                equal_nan=True,
            )


def test_many_large_or_lone_tensors_are_decomposed_alone():
    lone = torch.randn(3, 8)
    large = [torch.randn(2, 40_000), torch.randn(2, 40_000)]
    result = conditioning_of_many([lone, *large])
    assert [c.how for c in result] == [conditioning_of(t).how for t in (lone, *large)]
    assert result[1].how == "gram"  # of so wide a one, first in its own dtype
