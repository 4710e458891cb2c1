"""Condition number, numerical rank and stable rank, each with its tolerance and its error."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.arguments import check_count, check_number
from bathyscope.core.errors import UsageError, shorten
from bathyscope.core.fetch import SMALL, to_host
from bathyscope.linalg.norms import gram_matrix, rescale
from bathyscope.linalg.spectrum_record import (
    EIGENVALUE_ERROR,
    EPS,
    GRAM_ERROR,
    SMALL_SIDE,
    SMALLEST,
    STACK_BYTES,
    Asked,
    Conditioning,
    How,
    decided_by_gram,
    first_spectra,
    rounding_tolerance,
    svd_error,
    without_values,
)

# Entries up to which tensors of one shape are worth the copy that puts them together.
_SMALL = SMALL


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
    (tensor,) = to_host([tensor]) if tensor.numel() <= _SMALL else (tensor,)
    result: list[Conditioning | None] = [None] * len(different)
    if tensor.device.type != "cpu":
        asked = [Asked(tensor, mode, tolerance, accuracy) for mode in different]
        result = first_spectra(asked)
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
    tensors = [near.get(i, tensor) for i, tensor in enumerate(tensors)]
    result: list[Conditioning | None] = [None] * len(tensors)
    far = [i for i, tensor in enumerate(tensors) if tensor.device.type != "cpu"]
    asked = [Asked(tensors[i], mode, cuts[i], accuracy) for i in far]
    for i, one in zip(far, first_spectra(asked), strict=True):
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
    return [
        Conditioning.of_sorted(
            values[i],
            tolerance=float(cuts[i]),
            error=float(error[i] / (2 * minimum[i])),
            how=how,
        )
        if decided[i]
        else None
        for i in range(len(values))
    ]


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
