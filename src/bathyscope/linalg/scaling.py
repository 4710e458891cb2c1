"""Tensors brought to a range in which squares and sums of squares keep their digits."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


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
        low, high = tensor.aminmax()
        largest = max(-low.item(), high.item())
    if largest == 0 or not math.isfinite(largest):
        return tensor, largest
    limits = torch.finfo(tensor.dtype)
    bound = math.sqrt(limits.max) * limits.eps
    if 1 / bound < largest < bound:
        return tensor, 1.0
    exponent = math.frexp(largest)[1] - 1
    # torch.ldexp forms 2^k in float32 and would overflow: scale in two halves instead
    half = exponent // 2
    return tensor * 2.0**-half * 2.0 ** (half - exponent), math.ldexp(1.0, exponent)
