"""The start of transformers: small normal weights, branches scaled by depth."""

from collections.abc import Iterator

import torch
from torch import nn

from bathyscope.core.global_state import fill_normal_
from bathyscope.inits.layers import fans, group_weights, weight_layers, zero_bias_


def transformer_(model: nn.Module, *, generator: torch.Generator | None = None) -> nn.Module:
    """Draw every weight from N(0, 2/(5·fan_in)), and scale the residual branches by their number.

    The deviation is that of Nguyen and Salazar (2019), about GPT-2's 0.02 at its width of 768. The
    last layer of a branch that is added to the bare stream is divided by √(number of branches), as
    GPT-2's are; one whose sum is normalized keeps its scale. Where the shortcut multiplies the
    stream by α (DeepNorm), values, output and feed-forward layers are drawn as Xavier's with the
    gain 1/(√2·α) = (8N)^(−1/4), queries and keys with the gain 1. Biases are zero.

    Args:
        model: changed in place.
        generator: source of the random numbers; torch's global one if left out.

    Returns:
        The same model.

    Examples:
        >>> layer = transformer_(nn.Linear(400, 100), generator=torch.Generator().manual_seed(0))
        >>> round(float(layer.weight.detach().std() * 1000 ** 0.5), 2)
        1.0
    """
    for layer in weight_layers(model):
        _draw_(layer, (0.4 / fans(layer)[0]) ** 0.5, generator)
    residual = list(_residual_blocks(model))
    for branch, factor, is_normalized in residual:
        layers = list(weight_layers(branch))
        if factor is not None:
            queries_and_keys = {
                id(getattr(m, n, None)) for m in branch.modules() for n in ("query", "key")
            }
            for layer in layers:
                gain = 1.0 if id(layer) in queries_and_keys else 1 / (2**0.5 * factor)
                _draw_(layer, gain * (2 / sum(fans(layer))) ** 0.5, generator)
        elif layers and not is_normalized:
            for weight in group_weights(layers[-1]):
                weight.div_(len(residual) ** 0.5)
    return model


def _draw_(layer: nn.Module, std: float, generator: torch.Generator | None) -> None:
    for weight in group_weights(layer):
        fill_normal_(weight, std, generator)
    zero_bias_(layer)


def _residual_blocks(model: nn.Module) -> Iterator[tuple[nn.Module, float | None, bool]]:
    """Every branch around which there is a shortcut, the shortcut's factor, and if the sum is normed."""
    for module in model.modules():
        branch, shortcut = getattr(module, "branch", None), getattr(module, "shortcut", None)
        if isinstance(branch, nn.Module) and isinstance(shortcut, nn.Module):
            factor = getattr(shortcut, "factor", None)
            is_normalized = "Norm" in type(getattr(module, "post", None)).__name__
            yield branch, factor if isinstance(factor, float) else None, is_normalized
