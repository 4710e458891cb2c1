"""Zero with a small Xavier perturbation: the start that suits shortcuts of length two."""

import torch
from torch import nn

from bathyscope.inits.xavier import xavier_


def small_(
    model: nn.Module, *, scale: float = 0.01, generator: torch.Generator | None = None
) -> nn.Module:
    """Xavier weights times a small constant; biases are zero.

    Zero itself is a saddle point, which the perturbation leaves (shortcut_length, section 4.1,
    where the constant is 0.01).

    Args:
        model: changed in place.
        scale: the constant; 0 gives exactly zero weights.
        generator: source of the random numbers; torch's global one if left out.

    Returns:
        The same model.

    Examples:
        >>> layer = small_(nn.Linear(4, 4), scale=0.0)
        >>> float(layer.weight.detach().abs().sum())
        0.0
    """
    return xavier_(model, gain=scale, generator=generator)
