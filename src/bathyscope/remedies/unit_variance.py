"""Layers rescaled, first to last, so that each gives out unit variance on a batch."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core import Block, preserve_model
from bathyscope.core.batch import copy_tensors, forward
from bathyscope.core.calls import unwrap
from bathyscope.core.members import weighted_layers
from bathyscope.remedies.change import Change


def unit_variance_(model: nn.Module, inputs: Any, blocks: Iterable[Block]) -> Change:
    """Divide weight and bias of every layer of the blocks by the deviation of its output.

    One forward pass does it: each layer is rescaled, and its output with it, before the next layer
    reads it. Layers whose output does not vary are left alone.

    Args:
        model: changed in place.
        inputs: of a batch.
        blocks: whose layers are rescaled.

    Returns:
        The change, with its `undo()`.

    Examples:
        >>> from bathyscope.core import blocks_of
        >>> net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
        >>> x = torch.randn(256, 32)
        >>> with torch.no_grad():
        ...     _ = net[0].weight.mul_(1e-3)
        >>> change = unit_variance_(net, x, blocks_of(net, x))
        >>> round(net(x).std().item(), 3)
        1.0
    """
    root = unwrap(model)
    chosen = list(blocks)
    layers = {id(m): m for block in chosen for m in weighted_layers(root, block).values()}
    change = Change("rescaled to unit variance", tuple(b.label for b in chosen))
    scales: dict[int, float] = {}

    def rescale(module: nn.Module, args: Any, output: Any) -> Any:
        if not isinstance(output, Tensor):
            return None
        if id(module) not in scales:
            deviation = float(output.std())
            usable = 0 < deviation < float("inf")
            scales[id(module)] = 1 / deviation if usable else 1.0
        return output * scales[id(module)]

    with preserve_model(root, copy_parameters=False), torch.no_grad():
        for layer in layers.values():
            layer.register_forward_hook(rescale)
        forward(root, copy_tensors(inputs))
    with torch.no_grad():
        for key, factor in scales.items():
            for parameter in layers[key].parameters(recurse=False):
                change.keeping(parameter)
                parameter.mul_(factor)
    return change
