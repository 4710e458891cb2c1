"""Orthogonal initialization of every layer, as a matrix."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.global_state import fill_normal_
from bathyscope.inits.layers import group_weights, weight_layers, zero_bias_


def orthogonal_(
    model: nn.Module, *, gain: float = 1.0, generator: torch.Generator | None = None
) -> nn.Module:
    """Make every weight, seen as an out × (in · taps) matrix, a random semi-orthogonal one.

    WWᵀ = gain² I, or WᵀW = gain² I where there are more rows than columns
    (shortcut_length, section 5). Each group of a convolution is a matrix of its own.

    Args:
        model: changed in place.
        gain: the singular value of every matrix.
        generator: source of the random numbers; torch's global one if left out.

    Returns:
        The same model.

    Examples:
        >>> layer = orthogonal_(nn.Linear(5, 5))
        >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(5), atol=1e-5)
        True
    """
    for layer in weight_layers(model):
        for weight in group_weights(layer):
            rows = weight.flatten(1)
            matrix = semi_orthogonal(*rows.shape, like=weight, generator=generator)
            weight.copy_(gain * matrix.view_as(weight))
        zero_bias_(layer)
    return model


def semi_orthogonal(
    rows: int, columns: int, *, like: Tensor, generator: torch.Generator | None = None
) -> Float[Tensor, " rows columns"]:
    """A matrix uniform among those with orthonormal rows or columns, whichever are fewer.

    Args:
        rows: number of rows.
        columns: number of columns.
        like: gives dtype and device.
        generator: source of the random numbers.

    Examples:
        >>> q = semi_orthogonal(2, 6, like=torch.zeros(1))
        >>> torch.allclose(q @ q.T, torch.eye(2), atol=1e-5)
        True
    """
    tall = max(rows, columns), min(rows, columns)
    gaussian = torch.empty(tall, dtype=like.dtype, device=like.device)
    fill_normal_(gaussian, 1.0, generator)
    q, r = torch.linalg.qr(gaussian)
    # The signs make the distribution uniform (Haar), whatever convention the QR has.
    q = q * torch.where(r.diagonal() < 0, -1.0, 1.0).to(q.dtype)
    result: Tensor = q if rows >= columns else q.T
    return result
