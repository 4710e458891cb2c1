"""The layers an initializer fills, and what it needs to know of each."""

from collections.abc import Iterator
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.devices import is_packed

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def weight_layers(model: nn.Module) -> Iterator[nn.Module]:
    """The linear and convolution layers of a model, in the order of `modules()`, each once.

    Everything else (normalization layers, gates' offsets, embeddings, packed weights) is left as it is.

    Examples:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
        >>> [layer.out_features for layer in weight_layers(net)]
        [3, 1]
    """
    for module in model.modules():
        is_filled = isinstance(module, (nn.Linear, *_CONVOLUTIONS, *_TRANSPOSED))
        if is_filled and not is_packed(_weight(module)):
            yield module


def fans(layer: nn.Module) -> tuple[int, int]:
    """Number of inputs that reach one output of a layer, and of outputs that one input reaches.

    A grouped convolution connects only channels of one group, so both are counted within a group;
    `torch.nn.init` counts the outputs of all groups.

    Examples:
        >>> fans(nn.Conv2d(8, 16, 3, groups=4))
        (18, 36)
    """
    weight = _weight(layer)
    taps = prod(weight.shape[2:])
    first, second = weight.shape[0] // groups(layer) * taps, weight.shape[1] * taps
    return (first, second) if isinstance(layer, _TRANSPOSED) else (second, first)


def groups(layer: nn.Module) -> int:
    """Number of groups of a convolution; 1 for a linear layer."""
    return int(getattr(layer, "groups", 1))


def group_weights(layer: nn.Module) -> tuple[Float[Tensor, " ..."], ...]:
    """The weight of each group, as views that can be written to."""
    return torch.chunk(_weight(layer).detach(), groups(layer), dim=0)


def zero_bias_(layer: nn.Module) -> None:
    """Set the bias of a layer to zero, where it has one."""
    if isinstance(bias := getattr(layer, "bias", None), Tensor):
        bias.detach().zero_()


def middle_taps(weight: Float[Tensor, " d c *taps"]) -> Float[Tensor, " d c"]:
    """The matrix at the middle tap of a kernel, as a view; a matrix is its own."""
    for size in weight.shape[2:]:
        weight = weight.select(2, size // 2)
    return weight


def _weight(layer: nn.Module) -> Tensor:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight
