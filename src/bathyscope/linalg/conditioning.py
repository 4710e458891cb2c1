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
from bathyscope.core.devices import with_double
from bathyscope.core.errors import UsageError, shorten
from bathyscope.core.fetch import SMALL, to_host
from bathyscope.linalg.norms import gram_matrix, rescale

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
# Entries up to which tensors of one shape are worth the copy that puts them together.
_SMALL = SMALL


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
    modes = list(modes)
    # a matrix and its transpose have the same values
    different = modes[:1] if tensor.ndim == 2 else modes
    (tensor,) = to_host([tensor]) if tensor.numel() <= _SMALL else (with_double(tensor),)
    result: list[Conditioning | None] = [None] * len(different)
    if tensor.device.type != "cpu":
        result = _of_device([Asked(tensor, mode, tolerance, accuracy) for mode in different])
    if None in result:
        scaled, unit = rescale(tensor)
        for i, mode in enumerate(different):
            one = result[i]
            cut = Asked(tensor, mode, tolerance, accuracy).cut
            if one is None and 0 < unit < math.inf:
                one = _spectrum(scaled, mode=mode, unit=unit, tolerance=cut, accuracy=accuracy)
            result[i] = without_values(tensor, mode, unit, cut) if one is None else one
    known = [one for one in result if one is not None]
    return tuple(known * len(modes) if tensor.ndim == 2 else known)


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
    small = [i for i, tensor in enumerate(tensors) if tensor.numel() <= _SMALL]
    near = dict(zip(small, to_host([tensors[i] for i in small]), strict=True))
    tensors = [near[i] if i in near else with_double(t) for i, t in enumerate(tensors)]
    result: list[Conditioning | None] = [None] * len(tensors)
    far = [i for i, tensor in enumerate(tensors) if tensor.device.type != "cpu"]
    asked = [Asked(tensors[i], mode, cuts[i], accuracy) for i in far]
    for i, one in zip(far, _of_device(asked) if far else (), strict=True):
        result[i] = one
    alike: dict[tuple[torch.Size, torch.dtype, torch.device], list[int]] = {}
    for i, tensor in enumerate(tensors):
        if i in near and tensor.ndim > 1 and tensor.numel():
            alike.setdefault((tensor.shape, tensor.dtype, tensor.device), []).append(i)
    for locations in alike.values():
        if len(locations) > 1:
            num = max(1, STACK_BYTES // max(1, tensors[locations[0]].nbytes))
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
    gram = matrices @ other if rows <= columns else other @ matrices
    total = gram.diagonal(dim1=1, dim2=2).sum(dim=1).numpy()
    usable = (total > SMALLEST) & (total < 1 / SMALLEST)  # false where it is not a number
    if not usable.all():
        gram[torch.from_numpy(~usable)] = 0.0
    squares = torch.linalg.eigvalsh(gram).numpy()[:, ::-1]
    # the same decision as of a single one, `_spectrum`
    error = (GRAM_ERROR + EIGENVALUE_ERROR) * EPS * squares.sum(axis=1)
    cut = cuts**2 * squares[:, 0]
    kept = (squares > cut[:, None]).sum(axis=1)
    minimum = np.take_along_axis(squares, np.maximum(kept - 1, 0)[:, None], axis=1)[:, 0]
    clear = (abs(squares - cut[:, None]) > error[:, None]).all(axis=1)
    decided = usable & (kept > 0) & clear & (error <= 2 * accuracy * minimum)
    values = np.sqrt(squares.clip(min=0.0))
    how: How = "gram" if stack.dtype == torch.float64 else "gram in float64"
    # what `Conditioning.of_sorted` computes of one, of all at once
    with np.errstate(divide="ignore", invalid="ignore"):  # of those that are not decided
        effective = values[:, 0] / np.sqrt(minimum)
        stable = ((values / values[:, :1]) ** 2).sum(axis=1)
        relative = error / (2 * minimum)
    every = torch.from_numpy(np.ascontiguousarray(values)).unbind()
    side = values.shape[1]
    return [
        Conditioning(
            singular_values=one,
            tolerance=tolerance,
            rank=rank,
            condition_number=number if rank == side else math.inf,
            effective_condition_number=number,
            stable_rank=stability,
            error=bound,
            how=how,
        )
        if is_decided
        else None
        for one, tolerance, rank, number, stability, bound, is_decided in zip(
            every, cuts.tolist(), kept.tolist(), effective.tolist(), stable.tolist(), relative.tolist(),
            decided.tolist(), strict=True,
        )
    ]  # fmt: skip


def _spectrum(
    tensor: Float[Tensor, " ..."], *, mode: int, unit: float, tolerance: float, accuracy: float
) -> Conditioning:
    """Gram in the tensor's dtype, Gram in float64, SVD in float64: the first that decides.

    Where the products are few beside the eigenvalues, they are formed in float64 at once.
    """
    rows = tensor.shape[mode]
    other = tensor.numel() // rows
    for dtype in Asked(tensor, mode, tolerance, accuracy).dtypes:
        gram = gram_matrix(tensor, mode, dtype=dtype).double()
        if len(gram) <= SMALL_SIDE:  # of a device: its eigenvalues are had sooner on the CPU
            gram = gram.cpu()
        squares = torch.linalg.eigvalsh(gram).cpu().numpy()[::-1]
        result = decided_by_gram(
            squares, dtype=dtype, own=tensor.dtype, unit=unit, tolerance=tolerance,
            accuracy=accuracy,
        )  # fmt: skip
        if result is not None:
            return result
    values = torch.linalg.svdvals(tensor.movedim(mode, 0).flatten(1).double())
    kept = values[values > tolerance * values[0]]
    relative = svd_error(rows, other) * (values[0] / kept[-1]).item()
    return Conditioning.of_singular_values(
        values * unit, tolerance=tolerance, error=relative, how="svd"
    )


def _of_device(asked: Sequence[Asked]) -> list[Conditioning | None]:
    from bathyscope.linalg.device_spectra import first_spectra  # of devices alone

    return first_spectra(asked)


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
