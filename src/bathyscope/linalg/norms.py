"""Norms and Gram matrices of large and of extreme tensors, to the precision of their dtype."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bathyscope.core.fetch import fetch

# Longer runs of float32 squares lose digits: one run of 2²⁴ is wrong by 6e-4, runs of 2¹² by 1e-7.
_RUN = 2**12
# Of norms whose squares lie within the range of the dtype, with all their digits.
_RANGE = {
    dtype: (math.sqrt(limits.tiny) / limits.eps, math.sqrt(limits.max))
    for dtype, limits in ((d, torch.finfo(d)) for d in (torch.float32, torch.float64))
}


def frobenius_norm(tensor: Float[Tensor, " ..."]) -> float:
    """√Σx², summed in short runs and rescaled where the squares would overflow or vanish.

    Args:
        tensor: of any shape; half precision is summed in float32.

    Returns:
        The norm; not a number, or infinite, where an entry is; 0 for an empty tensor.

    Examples:
        >>> round(frobenius_norm(torch.tensor([3e-30, 4e-30])) / 5e-30, 6)
        1.0
    """
    flat = tensor.detach()
    if flat.dtype not in _RANGE:
        flat = flat.float()
    low, high = _RANGE[flat.dtype]
    # torch sums a short tensor of any shape as it lies in memory
    norm = _in_runs(flat if flat.numel() <= _RUN else flat.reshape(-1))
    if low < norm < high or flat.numel() == 0:
        return norm
    flat, unit = rescale(flat.reshape(-1))
    return unit * _in_runs(flat) if 0 < unit < math.inf else abs(unit)


def frobenius_norms(tensors: Sequence[Float[Tensor, " ..."]]) -> list[float]:
    """`frobenius_norm` of each; those of an accelerator are summed in float64 and come in one transfer.

    Examples:
        >>> frobenius_norms([torch.ones(4), torch.zeros(2)])
        [2.0, 0.0]
    """
    there = [i for i, tensor in enumerate(tensors) if tensor.device.type != "cpu"]
    wide = fetch([norm_on_device(tensors[i]) for i in there])
    known = _short_norms(tensors) | {i: norm for i, (norm,) in zip(there, wide, strict=True)}
    return [known[i] if i in known else frobenius_norm(t) for i, t in enumerate(tensors)]


def _short_norms(tensors: Sequence[Float[Tensor, " ..."]]) -> dict[int, float]:
    """The norms that a single run gives, by place, of tensors on the host: few calls for all of one dtype."""
    short: dict[torch.dtype, list[int]] = {}
    for i, tensor in enumerate(tensors):
        if tensor.device.type == "cpu" and tensor.dtype in _RANGE and 0 < tensor.numel() <= _RUN:
            short.setdefault(tensor.dtype, []).append(i)
    result: dict[int, float] = {}
    for dtype, places in short.items():
        low, high = _RANGE[dtype]
        together = torch._foreach_norm([tensors[i].detach() for i in places])
        norms = zip(places, torch.stack(together).tolist(), strict=True)
        result |= {i: norm for i, norm in norms if low < norm < high}
    return result


def norm_on_device(tensor: Float[Tensor, " ..."]) -> Float64[Tensor, ""]:
    """`frobenius_norm` as a tensor where the entries are, which the host need not wait for.

    In float64 the squares of narrower numbers stay within the range; numbers in float64 are divided by
    the largest of them.

    Examples:
        >>> norm_on_device(torch.tensor([3e-200, 4e-200], dtype=torch.float64)).item() / 5e-200
        1.0
    """
    tensor = tensor.detach()
    if tensor.dtype != torch.float64 or not tensor.numel():
        norm: Tensor = torch.linalg.vector_norm(tensor, dtype=torch.float64)
        return norm
    largest = tensor.abs().amax()
    unit = torch.where((largest > 0) & largest.isfinite(), largest, 1.0)
    result: Tensor = torch.linalg.vector_norm(tensor / unit) * unit
    return result


def _in_runs(flat: Float[Tensor, " ..."]) -> float:
    if flat.numel() <= _RUN:
        return float(torch.linalg.vector_norm(flat))
    whole = flat.numel() // _RUN * _RUN
    norms = torch.linalg.vector_norm(flat[:whole].view(-1, _RUN), dim=1)
    norm = float(torch.linalg.vector_norm(norms, dtype=torch.float64))
    if whole == flat.numel():
        return norm
    return math.hypot(norm, float(torch.linalg.vector_norm(flat[whole:])))


def rescale(
    tensor: Float[Tensor, " ..."], *, largest: float | None = None
) -> tuple[Float[Tensor, " ..."], float]:
    """The tensor in float32 at least, divided by a power of two where its squares leave the range.

    Gradients of 1e-25 and activations of 1e25 are what a deep network in trouble has, and in
    float32 their squares are 0 and infinite. The largest absolute value can be given where it is known.

    Returns:
        The tensor, itself where nothing had to be done, and what it was divided by: 1, a power of
        two, 0 where all is zero, and nan or inf where an entry is.

    Examples:
        >>> tensor, unit = rescale(torch.tensor([1e-30, 2e-30]))
        >>> tensor.max() * unit == 2e-30, 1 <= tensor.max() < 2
        (tensor(True), tensor(True))
    """
    tensor = tensor.detach()
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    if tensor.numel() == 0:
        return tensor, 0.0
    if largest is None:
        low, high = torch.stack(tensor.aminmax()).tolist()
        largest = max(-low, high)
    if largest == 0 or not math.isfinite(largest):
        return tensor, largest
    if fits_in_squares(largest, tensor.dtype):
        return tensor, 1.0
    exponent = math.frexp(largest)[1] - 1
    # torch.ldexp forms 2^k in float32 and would overflow: scale in two halves instead
    half = exponent // 2
    return tensor * 2.0**-half * 2.0 ** (half - exponent), math.ldexp(1.0, exponent)


def fits_in_squares(largest: float, dtype: torch.dtype) -> bool:
    """Whether squares of numbers of this size, and sums of many, are within the range of the dtype.

    Examples:
        >>> fits_in_squares(1e3, torch.float16), fits_in_squares(1e-30, torch.float32)
        (True, False)
    """
    limits = torch.finfo(torch.promote_types(dtype, torch.float32))
    bound = math.sqrt(limits.max) * limits.eps
    return 1 / bound < largest < bound


# Elements that are held in a wider dtype at a time: 8 MB of float64, so that asking for more
# precision costs a cache-sized buffer and not a second copy of the tensor.
_PIECE = 2**20


def gram_matrix(
    tensor: Float[Tensor, " ..."], mode: int, *, dtype: torch.dtype | None = None
) -> Float[Tensor, " n n"]:
    """Gram matrix of the mode-k unfolding, on its smaller side.

    With X_(k) of size n_k × (the product of the other sizes), this is X_(k) X_(k)ᵀ, or
    X_(k)ᵀ X_(k) where the rows outnumber the columns. Both have the same non-zero eigenvalues,
    the squared singular values of X_(k).

    Args:
        tensor: of any order above zero.
        mode: the axis k that makes the rows of the unfolding.
        dtype: the dtype of the products and sums; the tensor's own by default.

    Returns:
        A symmetric matrix as wide as the smaller side of the unfolding.

    Examples:
        >>> x = torch.arange(12.0).reshape(2, 3, 2)
        >>> unfolded = x.transpose(0, 1).reshape(3, 4)
        >>> torch.equal(gram_matrix(x, 1), unfolded @ unfolded.T)
        True
    """
    dtype = dtype or tensor.dtype
    size = tensor.shape[mode]
    before = math.prod(tensor.shape[:mode])
    after = math.prod(tensor.shape[mode + 1 :])
    view = tensor.reshape(before, size, after)
    if size > before * after:
        columns = view.transpose(1, 2).reshape(before * after, size).to(dtype)
        return columns @ columns.T
    if tensor.dtype == dtype:
        return _rows_gram(view)
    total = torch.zeros(size, size, dtype=dtype, device=tensor.device)
    axis = 2 if before == 1 else 0
    step = max(1, _PIECE * view.shape[axis] // max(1, view.numel()))
    for piece in view.split(step, dim=axis):
        total += _rows_gram(piece.to(dtype))
    return total


def _rows_gram(view: Float[Tensor, " a n b"]) -> Float[Tensor, " n n"]:
    """Σ_a X_a X_aᵀ, by whichever product copies least."""
    before, size, after = view.shape
    if before == 1:
        return view[0] @ view[0].T
    if after == 1:
        return view[:, :, 0].T @ view[:, :, 0]
    if size <= after:  # the batch of products is then no larger than the tensor
        return torch.bmm(view, view.transpose(1, 2)).sum(0)
    rows = view.transpose(0, 1).reshape(size, before * after)
    return rows @ rows.T


def norms_of(tensors: Sequence[Tensor]) -> list[Tensor]:
    """‖t‖₂ of each tensor, where it lies, in few launches; of half precision in float32.

    The norm of numbers that float16 can hold is often beyond float16.

    Examples:
        >>> [norm.item() for norm in norms_of([torch.full((4,), 6e4).half(), torch.ones(1)])]
        [120000.0, 1.0]
    """
    half = [t.is_floating_point() and t.element_size() < 4 for t in tensors]
    if not any(half):
        return list(torch._foreach_norm(list(tensors)))
    narrow = [t for t, is_half in zip(tensors, half, strict=True) if is_half]
    wide = [t for t, is_half in zip(tensors, half, strict=True) if not is_half]
    of_narrow = iter(torch._foreach_norm(narrow, 2, dtype=torch.float32))
    of_wide = iter(torch._foreach_norm(wide) if wide else ())
    return [next(of_narrow) if is_half else next(of_wide) for is_half in half]


def spread_about(values: Float[Tensor, " r"], target: float) -> float:
    """Root mean square of σ/target − 1.

    Examples:
        >>> spread_about(torch.tensor([1.0, 3.0]), 2.0)
        0.5
    """
    if not len(values):
        return math.inf
    few = values.detach().cpu().double().numpy()  # so few numbers are compared by numpy much faster
    return math.sqrt(np.square(few / target - 1).mean())
