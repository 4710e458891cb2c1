"""Delta-orthogonal initialization: an orthogonal matrix at the middle tap, zero elsewhere."""

import torch
from torch import nn

from bathyscope.inits.layers import group_weights, middle_taps, weight_layers, zero_bias_
from bathyscope.inits.orthogonal import semi_orthogonal


def delta_orthogonal_(
    model: nn.Module, *, gain: float = 1.0, generator: torch.Generator | None = None
) -> nn.Module:
    """Give every kernel a random orthogonal matrix at its middle tap and zeros at the others.

    The scheme discussed in `singularity`, section VII-A-2. It preserves the norm of every input
    when a layer (or a group of it) has at least as many outputs as inputs; with fewer outputs no
    layer can, and the rows are made orthonormal instead: the norm of what comes back is preserved.
    A linear layer is a kernel with one tap.

    Args:
        model: changed in place.
        gain: the singular value of every matrix.
        generator: source of the random numbers; torch's global one if left out.

    Returns:
        The same model.

    Examples:
        >>> conv = delta_orthogonal_(nn.Conv2d(3, 5, 3, padding=1, padding_mode="circular"))
        >>> x = torch.randn(1, 3, 8, 8)
        >>> torch.allclose(conv(x).norm(), x.norm(), rtol=1e-5)
        True
    """
    for layer in weight_layers(model):
        for weight in group_weights(layer):
            weight.zero_()
            taps = middle_taps(weight)
            taps.copy_(gain * semi_orthogonal(*taps.shape, like=weight, generator=generator))
        zero_bias_(layer)
    return model
