"""Condition number, numerical rank and stable rank, each with its tolerance and its error."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bathyscope.core.arguments import check_count, check_number
from bathyscope.core.errors import UsageError, shorten
from bathyscope.linalg.norms import gram_matrix, rescale

How = Literal["gram", "gram in float64", "svd", "given", "non-finite"]

# Of eigenvalues of a Gram matrix summed in floating point: |δλ| ≤ 2 ε tr G. Measured at most
# 1.3 ε tr G over lengths up to 2²⁰, with and without a mean, flat and decaying spectra.
_GRAM_ERROR = 2.0
# What computing the eigenvalues in float64 adds: with a float64 Gram matrix the two together were seen
# to exceed 2 ε tr G by a fourteenth.
_EIGENVALUE_ERROR = 2.0
_EPS = torch.finfo(torch.float64).eps
# Sums of squares between this and its inverse are held by float64 with all their digits.
_SMALLEST = 1e-200
# Times its smaller side: of a longer matrix the products cost more than the eigenvalues.
_WIDE = 16
# Entries up to which tensors of one shape are worth the copy that puts them together.
_SMALL = 2**16


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
        return cls._of_sorted(values.numpy(), tolerance=tolerance, error=error, how=how)

    @classmethod
    def _of_sorted(
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
    loses, `_svd_error`, is added: it matters for float64 only, where nothing wider is at hand.

    Examples:
        >>> round(rounding_tolerance(64, 65536, torch.float32) / torch.finfo(torch.float32).eps, 3)
        8.0
    """
    return torch.finfo(dtype).eps * math.sqrt(min(rows, columns)) + _svd_error(rows, columns)


def _svd_error(rows: int, columns: int) -> float:
    """Error of singular values computed in float64, relative to the largest: ε·max(m, n).

    The convention of numpy and LAPACK. How much of it is used depends on the order in which a
    processor's kernels sum: for 40 × 5000, 4ε with AVX2 and 13ε with SSE.
    """
    return _EPS * max(rows, columns)


def conditioning_of(
    tensor: Float[Tensor, " ..."],
    *,
    mode: int = 0,
    tolerance: float | None = None,
    accuracy: float | None = None,
) -> Conditioning:
    """Singular values, condition number and ranks of a matrix, or of one unfolding of a tensor.

    The values are roots of the eigenvalues of the Gram matrix on the smaller side, formed in the
    tensor's dtype (float32 at least). That loses values below √ε·σ_max. So where the rank or the
    effective condition number is not decided within the error, the Gram matrix is formed again
    in float64, and where that does not do either, the SVD is taken in float64.

    Args:
        tensor: a matrix, or a tensor of any order above zero.
        mode: the axis whose index makes the rows; 0 takes a matrix as it is.
        tolerance: relative to σ_max; `rounding_tolerance` of the tensor's own dtype by default.
        accuracy: relative error allowed to the effective condition number, by default 1e-8 for
            float64 and 1e-2 for what is narrower.

    Returns:
        The record of the spectrum. Where an entry is non-finite, so are its numbers.

    Raises:
        UsageError: for a tensor without axes, or a tolerance outside [0, 1).

    Examples:
        >>> c = conditioning_of(torch.diag(torch.tensor([8.0, 4.0, 0.0], dtype=torch.float64)))
        >>> c.rank, c.condition_number, round(c.effective_condition_number, 12), c.stable_rank
        (2, inf, 2.0, 1.25)
    """
    if not isinstance(tensor, Tensor) or tensor.ndim == 0 or not tensor.is_floating_point():
        raise UsageError(
            f"A condition number is of a matrix or tensor of real numbers, but {shorten(tensor)} "
            "was given."
        )
    if check_count("mode", mode) >= tensor.ndim:
        raise UsageError(f"mode is {mode}, but the tensor has {tensor.ndim} axes, counted from 0.")
    return conditioning_of_modes(tensor, (mode,), tolerance=tolerance, accuracy=accuracy)[0]


def conditioning_of_modes(
    tensor: Float[Tensor, " ..."],
    modes: Iterable[int],
    *,
    tolerance: float | None = None,
    accuracy: float | None = None,
) -> tuple[Conditioning, ...]:
    """`conditioning_of` for several modes of a tensor, whose range is looked at once.

    Examples:
        >>> [c.rank for c in conditioning_of_modes(torch.ones(2, 3, 4), (0, 2))]
        [1, 1]
    """
    if tolerance is not None and check_number("tolerance", tolerance, low=0.0) >= 1:
        raise UsageError(
            f"The tolerance is {tolerance}, but it must lie in [0, 1): it multiplies σ_max."
        )
    if accuracy is None:
        accuracy = 1e-8 if tensor.dtype == torch.float64 else 1e-2
    scaled, unit = rescale(tensor)
    result: list[Conditioning] = []
    for mode in modes:
        if tensor.ndim == 2 and result:  # a matrix and its transpose have the same values
            result.append(result[0])
            continue
        rows = tensor.shape[mode]
        columns = tensor.numel() // rows if rows else 0
        cut = rounding_tolerance(rows, columns, tensor.dtype) if tolerance is None else tolerance
        if 0 < unit < math.inf:
            result.append(_spectrum(scaled, mode=mode, unit=unit, tolerance=cut, accuracy=accuracy))
        else:
            values = torch.full((min(rows, columns),), 0.0 if unit == 0 else math.nan, device="cpu")
            result.append(Conditioning.of_singular_values(values, tolerance=cut))
    return tuple(result)


def conditioning_of_many(
    tensors: Sequence[Float[Tensor, " ..."]],
    *,
    mode: int = 0,
    tolerances: Sequence[float | None] | None = None,
    accuracy: float | None = None,
) -> list[Conditioning]:
    """`conditioning_of` for many tensors; small ones of one shape are decomposed in one call.

    Of small matrices the calls cost more than the numbers: their Gram matrices are formed in float64.

    Args:
        tensors: of real numbers, of any shapes and dtypes.
        mode: as in `conditioning_of`, the same for all.
        tolerances: one for each tensor, as in `conditioning_of`.
        accuracy: as in `conditioning_of`.

    Examples:
        >>> [c.rank for c in conditioning_of_many([torch.eye(3), torch.ones(3, 3), torch.eye(2)])]
        [3, 1, 2]
    """
    cuts = [None] * len(tensors) if tolerances is None else list(tolerances)
    result: list[Conditioning | None] = [None] * len(tensors)
    alike: dict[tuple[torch.Size, torch.dtype, torch.device], list[int]] = {}
    for i, tensor in enumerate(tensors):
        if tensor.ndim > 1 and 0 < tensor.numel() <= _SMALL:
            alike.setdefault((tensor.shape, tensor.dtype, tensor.device), []).append(i)
    for locations in alike.values():
        if len(locations) > 1:
            num = max(1, _STACK_BYTES // max(1, tensors[locations[0]].nbytes))
            for part in (locations[j : j + num] for j in range(0, len(locations), num)):
                stack = torch.stack([tensors[i].detach() for i in part])
                together = _spectra(stack, mode, [cuts[i] for i in part], accuracy)
                for i, one in zip(part, together, strict=True):
                    result[i] = one
    return [
        conditioning_of(tensor, mode=mode, tolerance=cut, accuracy=accuracy) if one is None else one
        for tensor, cut, one in zip(tensors, cuts, result, strict=True)
    ]


def _spectra(
    stack: Float[Tensor, " k ..."],
    mode: int,
    tolerances: Sequence[float | None],
    accuracy: float | None,
) -> list[Conditioning | None]:
    """From Gram matrices in float64; None where they do not decide, or the entries are extreme."""
    if accuracy is None:
        accuracy = 1e-8 if stack.dtype == torch.float64 else 1e-2
    matrices = stack.movedim(mode + 1, 1).flatten(2).double()
    rows, columns = matrices.shape[1:]
    usual = rounding_tolerance(rows, columns, stack.dtype)
    cuts = np.array([usual if cut is None else cut for cut in tolerances])
    other = matrices.transpose(1, 2)
    gram = _near_host(matrices @ other if rows <= columns else other @ matrices)
    total = gram.diagonal(dim1=1, dim2=2).sum(dim=1).cpu().numpy()
    usable = (total > _SMALLEST) & (total < 1 / _SMALLEST)  # false where it is not a number
    if not usable.all():
        gram[torch.from_numpy(~usable)] = 0.0
    squares = torch.linalg.eigvalsh(gram).cpu().numpy()[:, ::-1]
    # the same decision as of a single one, `_spectrum`
    error = (_GRAM_ERROR + _EIGENVALUE_ERROR) * _EPS * squares.sum(axis=1)
    cut = cuts**2 * squares[:, 0]
    kept = (squares > cut[:, None]).sum(axis=1)
    minimum = np.take_along_axis(squares, np.maximum(kept - 1, 0)[:, None], axis=1)[:, 0]
    clear = (abs(squares - cut[:, None]) > error[:, None]).all(axis=1)
    decided = usable & (kept > 0) & clear & (error <= 2 * accuracy * minimum)
    values = np.sqrt(squares.clip(min=0.0))
    how: How = "gram" if stack.dtype == torch.float64 else "gram in float64"
    return [
        Conditioning._of_sorted(
            values[i],
            tolerance=float(cuts[i]),
            error=float(error[i] / (2 * minimum[i])),
            how=how,
        )
        if decided[i]
        else None
        for i in range(len(values))
    ]


SMALL_SIDE = 512
_STACK_BYTES = 2**22  # of matrices that are decomposed together: more would gain nothing


def _near_host(gram: Tensor) -> Tensor:
    """A Gram matrix where its eigenvalues are had soonest: a small one of a device on the CPU."""
    return gram.cpu() if gram.shape[-1] <= SMALL_SIDE else gram


def _spectrum(
    tensor: Float[Tensor, " ..."], *, mode: int, unit: float, tolerance: float, accuracy: float
) -> Conditioning:
    """Gram in the tensor's dtype, Gram in float64, SVD in float64: the first that decides.

    Where the products are few beside the eigenvalues, they are formed in float64 at once.
    """
    rows = tensor.shape[mode]
    other = tensor.numel() // rows
    is_wide = max(rows, other) > _WIDE * min(rows, other)
    for dtype in dict.fromkeys((tensor.dtype, torch.float64) if is_wide else (torch.float64,)):
        gram = _near_host(gram_matrix(tensor, mode, dtype=dtype).double())
        squares = torch.linalg.eigvalsh(gram).cpu().numpy()[::-1]
        lost = _GRAM_ERROR * torch.finfo(dtype).eps + _EIGENVALUE_ERROR * _EPS
        error = lost * squares.sum()
        cut = tolerance**2 * squares[0]
        kept = int((squares > cut).sum())
        relative = error / (2 * squares[kept - 1]) if kept else math.inf
        if relative <= accuracy and bool((abs(squares - cut) > error).all()):
            values = np.sqrt(squares.clip(min=0.0)) * unit
            return Conditioning._of_sorted(
                values,
                tolerance=tolerance,
                error=float(relative),
                how="gram" if dtype == tensor.dtype else "gram in float64",
            )
    values = torch.linalg.svdvals(tensor.movedim(mode, 0).flatten(1).double())
    kept = values[values > tolerance * values[0]]
    relative = _svd_error(rows, other) * (values[0] / kept[-1]).item()
    return Conditioning.of_singular_values(
        values * unit, tolerance=tolerance, error=relative, how="svd"
    )
