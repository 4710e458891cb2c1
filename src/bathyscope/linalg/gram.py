"""Gram matrices of the unfoldings of a tensor, formed without unfolding it."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

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
