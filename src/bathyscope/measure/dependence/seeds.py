"""Random signs at chosen outputs: one backward pass then shows what these outputs read.

Σ_i s_i ∂y_i/∂x with independent signs s is zero, but for chance of measure zero, only where every ∂y_i/∂x is:
what cancels in a plain sum (a softmax's outputs add up to one) does not cancel here.
"""

import torch
from torch import Tensor

from bathyscope.measure.dependence.eval_pass import EvalPass


def random_weights(like: Tensor, *, seed: int = 0) -> Tensor:
    """Weights ±(0.5 to 1.5), the same for every call with that shape and seed.

    Pure signs would cancel in pairs of equal entries; magnitudes that differ do not.
    """
    generator = torch.Generator().manual_seed(seed)
    size = 0.5 + torch.rand(like.shape, generator=generator, dtype=torch.float64)
    sign = 2.0 * torch.randint(2, like.shape, generator=generator) - 1.0
    return (size * sign).to(device=like.device, dtype=like.dtype)


def seed_samples(ran: EvalPass, chosen: Tensor, *, at: Tensor | None = None) -> Tensor:
    """Weights at all outputs of the chosen samples, zero at the others.

    Args:
        ran: the pass.
        chosen: (samples,), true for those that are asked.
        at: (samples, positions), true at the output's positions that are asked, which are on axis 1 of
            the output with the samples first; all by default.
    """
    output = ran.by_sample
    weights = random_weights(output)
    keep = chosen.to(output.device).reshape(-1, *([1] * (output.ndim - 1)))
    weights = weights * keep
    if at is not None:
        weights = weights * at.to(output.device).reshape(*at.shape, *([1] * (output.ndim - 2)))
    return weights
