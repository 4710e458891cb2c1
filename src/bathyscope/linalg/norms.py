"""The Frobenius norm of large and of extreme tensors, to the precision of their dtype."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.linalg.scaling import rescale

# Longer runs of float32 squares lose digits: one run of 2²⁴ is wrong by 6e-4, runs of 2¹² by 1e-7.
_RUN = 2**12


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
    flat = tensor.detach().reshape(-1)
    if flat.dtype not in (torch.float32, torch.float64):
        flat = flat.float()
    norm = _in_runs(flat)
    limits = torch.finfo(flat.dtype)
    if math.sqrt(limits.tiny) / limits.eps < norm < math.sqrt(limits.max) or flat.numel() == 0:
        return norm
    flat, unit = rescale(flat)
    return unit * _in_runs(flat) if 0 < unit < math.inf else unit


def _in_runs(flat: Float[Tensor, " n"]) -> float:
    if flat.numel() <= _RUN:
        return float(torch.linalg.vector_norm(flat))
    whole = flat.numel() // _RUN * _RUN
    norms = torch.linalg.vector_norm(flat[:whole].view(-1, _RUN), dim=1)
    norm = float(torch.linalg.vector_norm(norms, dtype=torch.float64))
    if whole == flat.numel():
        return norm
    return math.hypot(norm, float(torch.linalg.vector_norm(flat[whole:])))
