"""What belongs to a block: its modules and the layers among them that have weights."""

from torch import nn

from bathyscope.core.calls import unwrap
from bathyscope.core.records import Block


def modules_of(model: nn.Module, block: Block) -> dict[str, nn.Module]:
    """The modules of a block by qualified name, in the order in which they were registered.

    Of a run of modules (`end != name`) these are the modules from the first to the last.

    Examples:
        >>> import torch
        >>> from bathyscope.core import blocks_of
        >>> mlp = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
        >>> [list(modules_of(mlp, block)) for block in blocks_of(mlp, torch.zeros(2, 4))]
        [['0', '1', '2'], ['3']]
    """
    root = unwrap(model)
    if block.name == block.end:
        return dict(root.get_submodule(block.name).named_modules(prefix=block.name))
    named = dict(root.named_modules())
    names = list(named)
    between = names[names.index(block.name) : names.index(block.end)]
    last = [name for name in names if name == block.end or name.startswith(f"{block.end}.")]
    return {name: named[name] for name in [*between, *last]}


def num_parameters(model: nn.Module) -> int:
    """How many numbers a model's parameters are; one that is shared counts once.

    Examples:
        >>> num_parameters(nn.Linear(3, 2))
        8
    """
    return sum(parameter.numel() for parameter in model.parameters())


def weighted_layers(model: nn.Module, block: Block) -> dict[str, nn.Module]:
    """The layers of a block that hold a weight matrix or a kernel, norms left out."""
    return {
        name: module
        for name, module in modules_of(model, block).items()
        if any(p.ndim >= 2 for p in module.parameters(recurse=False))
    }
