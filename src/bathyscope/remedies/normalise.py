"""Layer normalisation in front of blocks that have no norm of their own."""

from collections.abc import Iterable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope.core import Block, UsageError
from bathyscope.core.calls import unwrap
from bathyscope.core.members import modules_of, weighted_layers
from bathyscope.remedies.change import Change


def normalise_(model: nn.Module, blocks: Iterable[Block]) -> Change:
    """Normalise, sample by sample, what the first layer of every given block reads.

    Layer normalisation without parameters: over the features of a linear layer's input, over channels
    and positions of a convolution's. In a plain network that is the block's input; in a residual one
    the branch's, while the shortcut stays as it is. It is a hook on the layer: parameter names and the
    optimizer stay valid, and a copy of the model has it too. A state dict does not hold it: apply it
    again after loading.

    Args:
        model: changed in place.
        blocks: from `blocks_of`; those that have a norm, or no linear map or convolution, are left out.

    Returns:
        The change; `undo()` takes the norms away.

    Raises:
        UsageError: none of the blocks is without a norm.

    Examples:
        >>> import torch
        >>> from bathyscope.core import blocks_of
        >>> net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64))
        >>> x = torch.randn(8, 3)
        >>> plain = net(x)
        >>> change = normalise_(net, blocks_of(net, x)[1:])
        >>> hidden = F.layer_norm(torch.relu(net[0](x)), (64,))
        >>> torch.allclose(net(x), F.linear(hidden, net[2].weight, net[2].bias), atol=1e-6)
        True
        >>> change.undo(); torch.equal(net(x), plain)
        True
    """
    root = unwrap(model)
    chosen = {b.label: layer for b in blocks if (layer := _first_layer(root, b)) is not None}
    if not chosen:
        raise UsageError(
            "None of the given blocks can be normalised: each has a norm already, or no linear map "
            "or convolution; pass others."
        )
    change = Change("layer normalisation", tuple(chosen), structural=True)
    for layer in dict.fromkeys(chosen.values()):
        change.undone_by(layer.register_forward_pre_hook(_normalise_input, with_kwargs=True).remove)
    return change


def _first_layer(model: nn.Module, block: Block) -> nn.Module | None:
    if any("Norm" in type(m).__name__ for m in modules_of(model, block).values()):
        return None
    mapping = (nn.Linear, nn.modules.conv._ConvNd)
    return next((m for m in weighted_layers(model, block).values() if isinstance(m, mapping)), None)


def _normalise_input(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x: Tensor = args[0] if args else kwargs["input"]
    shape = x.shape[-1:] if isinstance(module, nn.Linear) else x.shape[1:]
    normal = F.layer_norm(x, shape)
    return ((normal, *args[1:]), kwargs) if args else ((), {**kwargs, "input": normal})
