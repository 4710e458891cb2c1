"""Dirac initialization: every layer starts as the identity."""

import torch
from torch import nn

from bathyscope.inits.layers import group_weights, middle_taps, weight_layers, zero_bias_


def dirac_(model: nn.Module, *, generator: torch.Generator | None = None) -> nn.Module:
    """Make every layer the identity on its channels: 1 at the middle tap of W[i, i], 0 elsewhere.

    The identity that `singularity`, equation 39, adds to the weights. Where a layer has more
    outputs than inputs the others start at zero; each group is the identity of its own channels.

    Args:
        model: changed in place.
        generator: not used, nothing is random; accepted so that all schemes are called alike.

    Returns:
        The same model.

    Examples:
        >>> x = torch.randn(1, 2, 4, 4)
        >>> torch.equal(dirac_(nn.Conv2d(2, 2, 3, padding=1))(x), x)
        True
    """
    for layer in weight_layers(model):
        for weight in group_weights(layer):
            weight.zero_()
            middle_taps(weight).fill_diagonal_(1)
        zero_bias_(layer)
    return model
