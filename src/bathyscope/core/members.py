"""What belongs to a block: its modules and the layers among them that have weights."""

from torch import nn

from bathyscope.core.calls import unwrapped
from bathyscope.core.records import Block


def modules_of(model: nn.Module, block: Block) -> dict[str, nn.Module]:
    """The modules of a block by qualified name, in the order in which they were registered.

    Of a run of modules (`end != name`) these are the modules from the first to the last.

    Example:
        >>> import torch
        >>> from bathyscope.core import blocks_of
        >>> mlp = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
        >>> [list(modules_of(mlp, block)) for block in blocks_of(mlp, torch.zeros(2, 4))]
        [['0', '1', '2'], ['3']]
    """
    named = dict(unwrapped(model).named_modules())
    names = list(named)
    first, last = names.index(block.name), names.index(block.end)
    inside = {
        name
        for name in names
        if first <= names.index(name) <= last
        or any(_is_within(name, whole) for whole in (block.name, block.end))
    }
    return {name: named[name] for name in names if name in inside}


def layers_of(model: nn.Module, block: Block) -> dict[str, nn.Module]:
    """The layers of a block that hold a weight matrix or a kernel, norms left out."""
    return {
        name: module
        for name, module in modules_of(model, block).items()
        if any(p.ndim >= 2 for p in module.parameters(recurse=False))
    }


def _is_within(name: str, whole: str) -> bool:
    return name == whole or name.startswith(f"{whole}.")
