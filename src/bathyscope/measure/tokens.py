"""How alike the tokens of one sequence have become."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

_SAMPLES = 16  # enough for a mean; the cost is that of reading them twice


class Likeness(NamedTuple):
    """Mean cosine between two tokens of a sequence, and their deviation from their mean."""

    cosine: float
    spread: float


def token_similarity(x: Float[Tensor, " n t d"]) -> Likeness:
    """How alike the tokens of each sequence are, of the first sixteen sequences.

    cosine: mean of x_i·x_j/(‖x_i‖‖x_j‖) over i ≠ j;  spread: ‖X − 1 x̄ᵀ‖_F/‖X‖_F, which falls to
    zero, doubly exponentially with depth, where attention stands alone (Dong et al. 2021).

    Examples:
        >>> token_similarity(torch.tensor([[[3.0, 4.0], [3.0, 4.0]]], dtype=torch.float64)).spread
        0.0
    """
    rows = x[:_SAMPLES].to(torch.promote_types(x.dtype, torch.float32))
    tokens = rows.shape[1]
    if tokens < 2 or not bool(torch.isfinite(rows).all()):
        return Likeness(float("nan"), float("nan"))
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    unit = rows / norms.clamp(min=torch.finfo(rows.dtype).tiny)
    together = unit.sum(1).square().sum(-1) - unit.square().sum((1, 2))
    mean = rows.mean(1, keepdim=True)
    total = float(norms.square().sum())
    apart = float((rows - mean).square().sum())
    spread = (apart / total) ** 0.5 if total else float("nan")
    return Likeness(float(together.mean()) / (tokens * (tokens - 1)), spread)
