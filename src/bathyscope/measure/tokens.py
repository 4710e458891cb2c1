"""How alike the tokens of one sequence have become."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.fetch import Readings

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
    result: list[Likeness] = []
    read_token_similarity(Readings(), x, result.append)
    return result[0]


def read_token_similarity(
    readings: Readings, x: Float[Tensor, " n t d"], then: Callable[[Likeness], None]
) -> None:
    """Call `then` with `token_similarity`, of a device once the pass is over."""
    rows = x[:_SAMPLES].to(torch.promote_types(x.dtype, torch.float32))
    tokens = rows.shape[1]
    if tokens < 2:
        then(Likeness(math.nan, math.nan))
        return
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    unit = rows / norms.clamp(min=torch.finfo(rows.dtype).tiny)
    together = unit.sum(1).square().sum(-1) - unit.square().sum((1, 2))
    mean = rows.mean(1, keepdim=True)
    sums = torch.stack([together.mean(), norms.square().sum(), (rows - mean).square().sum()])

    def read(sums: Tensor) -> None:
        alike, total, apart = sums.tolist()
        # of non-finite rows it is not a number
        spread = (apart / total) ** 0.5 if total and not math.isnan(alike) else math.nan
        then(Likeness(alike / (tokens * (tokens - 1)), spread))

    readings.add(read, sums)
