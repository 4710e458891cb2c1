"""The singular values of a matrix as a record, and when the eigenvalues of a Gram matrix decide it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bathyscope.core.fetch import to_host
from bathyscope.linalg.norms import fits_in_squares, gram_matrix

How = Literal["gram", "gram in float64", "svd", "given", "non-finite"]

# Of eigenvalues of a Gram matrix summed in floating point: |δλ| ≤ 2 ε tr G. Measured at most
# 1.3 ε tr G over lengths up to 2²⁰, with and without a mean, flat and decaying spectra.
GRAM_ERROR = 2.0
# What computing the eigenvalues in float64 adds: with a float64 Gram matrix the two together were seen
# to exceed 2 ε tr G by a fourteenth.
EIGENVALUE_ERROR = 2.0
EPS = torch.finfo(torch.float64).eps
# Sums of squares between this and its inverse are held by float64 with all their digits.
SMALLEST = 1e-200
# Times its smaller side: of a longer matrix the products cost more than the eigenvalues.
_WIDE = 16
SMALL_SIDE = 512
STACK_BYTES = 2**22  # of matrices that are decomposed together: more would gain nothing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditioning:
    """The singular values of a matrix and what follows from them.

    `tolerance` is relative to the largest singular value: what lies at or below it counts as zero.
    `rank` is the number of values above it (None where the matrix is non-finite), and
    `condition_number` is infinite where a value was cut. `error` bounds the relative error of
    `effective_condition_number`, and `how` says how the values were found.
    """

    singular_values: Float[Tensor, " r"]
    tolerance: float
    rank: int | None
    condition_number: float
    effective_condition_number: float
    stable_rank: float
    error: float
    how: How

    @classmethod
    def of_singular_values(
        cls,
        values: Float[Tensor, " r"],
        *,
        tolerance: float,
        error: float = 0.0,
        how: How = "given",
    ) -> "Conditioning":
        """Read rank and condition numbers off singular values in any order.

        κ = σ_max / σ_min   (singularity, equation 11), infinite where σ_min ≤ tolerance · σ_max;
        effective κ = σ_max / σ_rank; stable rank = Σσ² / σ_max². Of a zero matrix the condition
        numbers are infinite and the ranks zero; of an empty one they are not a number.

        Examples:
            >>> c = Conditioning.of_singular_values(torch.tensor([4.0, 2.0, 1e-9]), tolerance=1e-6)
            >>> c.rank, c.condition_number, c.effective_condition_number, c.stable_rank
            (2, inf, 2.0, 1.25)
        """
        values = values.detach().double().cpu().sort(descending=True).values
        if values.numel() == 0 or not torch.isfinite(values).all():
            return cls._non_finite(values, tolerance=tolerance)
        return cls.of_sorted(values.numpy(), tolerance=tolerance, error=error, how=how)

    @classmethod
    def of_sorted(
        cls, values: Float64[np.ndarray, " r"], *, tolerance: float, error: float, how: How
    ) -> "Conditioning":
        """From finite values, the largest first; so few numbers are counted by numpy much faster."""
        largest = float(values[0])
        rank = int((values > tolerance * largest).sum()) if largest > 0 else 0
        effective = largest / float(values[rank - 1]) if rank else math.inf
        return cls(
            singular_values=torch.from_numpy(values),
            tolerance=tolerance,
            rank=rank,
            condition_number=effective if 0 < rank == len(values) else math.inf,
            effective_condition_number=effective,
            stable_rank=float(((values / largest) ** 2).sum()) if largest > 0 else 0.0,
            error=error,
            how=how,
        )

    @classmethod
    def _non_finite(cls, values: Float[Tensor, " r"], *, tolerance: float) -> "Conditioning":
        return cls(
            singular_values=values.double(),
            tolerance=tolerance,
            rank=0 if values.numel() == 0 else None,
            condition_number=math.nan,
            effective_condition_number=math.nan,
            stable_rank=math.nan,
            error=math.nan,
            how="non-finite",
        )


def rounding_tolerance(rows: int, columns: int, dtype: torch.dtype) -> float:
    """Relative size below which a singular value may be nothing but rounding of the entries.

    Rounding each entry once changes the matrix by ‖E‖₂ ≤ ‖E‖_F ≤ ½ε‖A‖_F ≤ ½ε√min(m, n)·σ_max.
    The tolerance is twice that. Unlike ε·max(m, n), it does not grow with the number of samples
    and pixels of an unfolded representation, where it would call κ = 30 singular. What the SVD itself
    loses, `svd_error`, is added: it matters for float64 only, where nothing wider is at hand.

    Examples:
        >>> round(rounding_tolerance(64, 65536, torch.float32) / torch.finfo(torch.float32).eps, 3)
        8.0
    """
    return torch.finfo(dtype).eps * math.sqrt(min(rows, columns)) + svd_error(rows, columns)


def svd_error(rows: int, columns: int) -> float:
    """Error of singular values computed in float64, relative to the largest: ε·max(m, n).

    The convention of numpy and LAPACK. How much of it is used depends on the order in which a
    processor's kernels sum: for 40 × 5000, 4ε with AVX2 and 13ε with SSE.
    """
    return EPS * max(rows, columns)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A tensor whose spectrum is asked for in one mode."""

    tensor: Tensor
    mode: int
    tolerance: float | None
    accuracy: float | None

    @property
    def cut(self) -> float:
        """The tolerance, of rounding by default."""
        if self.tolerance is not None:
            return self.tolerance
        rows = self.tensor.shape[self.mode]
        columns = self.tensor.numel() // rows if rows else 0
        return rounding_tolerance(rows, columns, self.tensor.dtype)

    @property
    def dtypes(self) -> list[torch.dtype]:
        """In which the Gram matrix is formed: where products are few beside eigenvalues, float64 at once."""
        rows = self.tensor.shape[self.mode]
        other = self.tensor.numel() // rows
        is_wide = max(rows, other) > _WIDE * min(rows, other)
        narrow = torch.promote_types(self.tensor.dtype, torch.float32)
        return list(dict.fromkeys((narrow, torch.float64) if is_wide else (torch.float64,)))


def first_spectra(asked: Sequence[Asked]) -> list[Conditioning | None]:
    """Of large tensors of a device, from one Gram matrix each; None where that does not decide.

    Ranges and Gram matrices come together, a few megabytes at a time; eigenvalues of the wider ones are
    computed there.
    """
    result: list[Conditioning | None] = []
    waiting: list[tuple[Asked, Tensor, Tensor]] = []
    ranges: dict[int, Tensor] = {}

    def read() -> None:
        fetched = to_host([tensor for _, *both in waiting for tensor in both])
        for (one, *_), span, matrix in zip(waiting, fetched[::2], fetched[1::2], strict=True):
            result.append(_read_spectrum(one, span.tolist(), matrix))
        waiting.clear()

    for one in asked:
        tensor, (dtype, *_) = one.tensor.detach(), one.dtypes
        if tensor.dtype not in (torch.float32, torch.float64):
            tensor = tensor.float()
        gram = gram_matrix(tensor, one.mode, dtype=dtype).double()
        matrix = gram if len(gram) <= SMALL_SIDE else torch.linalg.eigvalsh(gram)
        if id(one.tensor) not in ranges:
            ranges[id(one.tensor)] = torch.stack(tensor.aminmax())
        waiting.append((one, ranges[id(one.tensor)], matrix))
        if sum(m.nbytes for _, _, m in waiting) > STACK_BYTES // 4:
            read()
    read()
    return result


def _read_spectrum(one: Asked, span: Sequence[float], matrix: Tensor) -> Conditioning | None:
    """From the range of a tensor, and its Gram matrix or the eigenvalues of that."""
    largest = max(-span[0], span[1])
    if largest == 0 or not math.isfinite(largest):
        return without_values(one.tensor, one.mode, largest, one.cut)
    if not fits_in_squares(largest, one.tensor.dtype):
        return None
    squares = torch.linalg.eigvalsh(matrix) if matrix.ndim == 2 else matrix
    accuracy = one.accuracy
    if accuracy is None:
        accuracy = 1e-8 if one.tensor.dtype == torch.float64 else 1e-2
    return decided_by_gram(
        squares.numpy()[::-1],
        dtype=one.dtypes[0],
        own=one.tensor.dtype,
        unit=1.0,
        tolerance=one.cut,
        accuracy=accuracy,
    )


def without_values(tensor: Tensor, mode: int, unit: float, tolerance: float) -> Conditioning:
    """Of a tensor that is zero throughout, or has a non-finite entry."""
    rows = tensor.shape[mode]
    side = min(rows, tensor.numel() // rows if rows else 0)
    values = torch.full((side,), 0.0 if unit == 0 else math.nan, device="cpu")
    return Conditioning.of_singular_values(values, tolerance=tolerance)


def decided_by_gram(
    squares: Float64[np.ndarray, " r"],
    *,
    dtype: torch.dtype,
    own: torch.dtype,
    unit: float,
    tolerance: float,
    accuracy: float,
) -> Conditioning | None:
    """From eigenvalues of a Gram matrix formed in `dtype`, largest first; None where they do not decide."""
    lost = GRAM_ERROR * torch.finfo(dtype).eps + EIGENVALUE_ERROR * EPS
    error = lost * squares.sum()
    cut = tolerance**2 * squares[0]
    kept = int((squares > cut).sum())
    relative = error / (2 * squares[kept - 1]) if kept else math.inf
    if not (relative <= accuracy and bool((abs(squares - cut) > error).all())):
        return None
    return Conditioning.of_sorted(
        np.sqrt(squares.clip(min=0.0)) * unit,
        tolerance=tolerance,
        error=float(relative),
        how="gram" if dtype == own else "gram in float64",
    )
