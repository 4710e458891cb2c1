"""Xavier initialization: normal weights scaled by both fans."""

import torch
from torch import nn

from bathyscope.core.global_state import fill_normal_
from bathyscope.inits.layers import fans, group_weights, weight_layers, zero_bias_


def xavier_(
    model: nn.Module, *, gain: float = 1.0, generator: torch.Generator | None = None
) -> nn.Module:
    """Draw every weight from N(0, gain² · 2 / (fan_in + fan_out)); biases are zero.

    The Gaussian start with which `shortcut_length` compares its own (section 5).

    Args:
        model: changed in place.
        gain: factor on the standard deviation.
        generator: source of the random numbers; torch's global one if left out.

    Returns:
        The same model.

    Examples:
        >>> layer = xavier_(nn.Linear(300, 100), generator=torch.Generator().manual_seed(0))
        >>> round(float(layer.weight.detach().var() * 200), 1)
        1.0
    """
    for layer in weight_layers(model):
        std = gain * (2 / sum(fans(layer))) ** 0.5
        for weight in group_weights(layer):
            fill_normal_(weight, std, generator)
        zero_bias_(layer)
    return model
