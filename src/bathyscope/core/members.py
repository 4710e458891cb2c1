"""What belongs to a block: its modules and the layers among them that have weights."""

from itertools import takewhile

from torch import nn

from bathyscope.core.calls import unwrap
from bathyscope.core.records import Block


class Members:
    """The modules of a model by name, walked once for everything that is asked block by block.

    It is of use only as long as the model's modules stay as they are.
    """

    def __init__(self, model: nn.Module) -> None:
        self.root = unwrap(model)
        self.named = dict(self.root.named_modules())
        self.names = list(self.named)
        self.known: dict[tuple[str, str], dict[str, nn.Module]] = {}

    def of(self, block: Block) -> dict[str, nn.Module]:
        """As `modules_of`; the dict is shared, so it is only read."""
        key = (block.name, block.end)
        if key not in self.known:
            self.known[key] = self._found(block)
        return self.known[key]

    def _found(self, block: Block) -> dict[str, nn.Module]:
        if block.name == block.end:
            return dict(self.root.get_submodule(block.name).named_modules(prefix=block.name))
        first, last = self.names.index(block.name), self.names.index(block.end)
        inside = takewhile(lambda n: n.startswith(f"{block.end}."), self.names[last + 1 :])
        return {name: self.named[name] for name in [*self.names[first : last + 1], *inside]}


def members_of(model: nn.Module | Members) -> Members:
    """The members of a model, or those walked before."""
    return model if isinstance(model, Members) else Members(model)


def modules_of(model: nn.Module | Members, block: Block) -> dict[str, nn.Module]:
    """The modules of a block by qualified name, in the order in which they were registered.

    Of a run of modules (`end != name`) these are the modules from the first to the last.

    Examples:
        >>> import torch
        >>> from bathyscope.core import blocks_of
        >>> mlp = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
        >>> [list(modules_of(mlp, block)) for block in blocks_of(mlp, torch.zeros(2, 4))]
        [['0', '1', '2'], ['3']]
    """
    return dict(members_of(model).of(block))


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
