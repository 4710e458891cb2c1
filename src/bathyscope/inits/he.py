"""He initialization: normal weights that keep the variance of the signal through ReLU layers."""

import torch
from torch import nn

from bathyscope.core.global_state import fill_normal_
from bathyscope.inits.layers import fans, group_weights, weight_layers, zero_bias_


def he_(model: nn.Module, *, generator: torch.Generator | None = None) -> nn.Module:
    """Draw every weight of a linear or convolution layer from N(0, 2 / fan_in); biases are zero.

    The start of the convolutional networks of the papers (norm_preservation, section 4).

    Args:
        model: changed in place.
        generator: source of the random numbers; torch's global one if left out.

    Returns:
        The same model.

    Examples:
        >>> layer = he_(nn.Linear(2000, 50), generator=torch.Generator().manual_seed(0))
        >>> round(float(layer.weight.detach().var() * 2000), 1)
        2.0
    """
    for layer in weight_layers(model):
        std = (2 / fans(layer)[0]) ** 0.5
        for weight in group_weights(layer):
            fill_normal_(weight, std, generator)
        zero_bias_(layer)
    return model
