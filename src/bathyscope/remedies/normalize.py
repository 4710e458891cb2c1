"""Layer normalization of what chosen layers read."""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from bathyscope.core import Block, UsageError
from bathyscope.core.calls import modules_of, unwrap
from bathyscope.remedies.change import Change
from bathyscope.remedies.remedy import Edit, StructureRemedy, python_list, submodule

READERS = (nn.Linear, nn.modules.conv._ConvNd, nn.MultiheadAttention, nn.RNNBase)
"""Modules that read a tensor which can be normalized before."""


_NORMALIZE = '''\
def normalize(module, args, kwargs):
    """Layer normalization of what a layer reads; of query, key and value for attention."""
    names = ["query", "key", "value"] if isinstance(module, nn.MultiheadAttention) else ["input"]
    over = slice(1, None) if isinstance(module, nn.modules.conv._ConvNd) else slice(-1, None)
    def normal(x):
        return F.layer_norm(x, x.shape[over]) if isinstance(x, torch.Tensor) else x
    read = [normal(x) for x in args[: len(names)]]
    passed = {name: normal(x) if name in names else x for name, x in kwargs.items()}
    return (*read, *args[len(names) :]), passed
'''


class AddNorms(StructureRemedy):
    """Layer normalization, without parameters, of what some layers read, sample by sample.

    Over the features of what a linear map, an attention or a recurrent layer reads; over channels and
    positions of what a convolution reads. It is a hook on the layer: parameter names and the optimizer
    stay valid, and a copy of the model has it too. A state dict does not hold it.
    """

    name: Literal["add-norms"] = "add-norms"
    layers: Annotated[tuple[str, ...], Field(min_length=1)]
    helpers: ClassVar = (_NORMALIZE,)

    @property
    def description(self) -> str:
        """For instance `layer normalization before 12 layers`."""
        number = len(self.layers)
        return f"layer normalization before {number} layer{'s' * (number != 1)}"

    @property
    def num_added(self) -> int:
        """One norm a layer."""
        return len(self.layers)

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Hook the layers."""
        layers = {name: submodule(model, name) for name in self.layers}
        for name, layer in layers.items():
            if not isinstance(layer, READERS):
                raise UsageError(
                    f"What {name!r} reads cannot be normalized: it is a {type(layer).__name__}, and "
                    "no linear map, convolution, attention or recurrent layer."
                )
        change = Change(self.description, self.layers)
        for layer in dict.fromkeys(layers.values()):
            change.add_hooks().before_forward(layer, _normalize_inputs, with_kwargs=True)
        return change

    def code(self) -> str:
        """A loop over the layers."""
        return (
            f"for name in {python_list(self.layers)}:\n"
            "    layer = model.get_submodule(name)  # as in: layer(norm(x))\n"
            "    layer.register_forward_pre_hook(normalize, with_kwargs=True)\n"
        )

    def edits(self, model: nn.Module) -> dict[str, Edit]:
        """`layer_norm` of what each layer reads."""
        result = {}
        for name in self.layers:
            whole = isinstance(submodule(model, name), nn.modules.conv._ConvNd)
            over = "[1:]" if whole else "[-1:]"
            result[name] = Edit("Standardized", before=f"F.layer_norm({{0}}, {{0}}.shape{over})")
        return result


def normalize_(model: nn.Module, blocks: Iterable[Block]) -> Change:
    """Normalize, sample by sample, what the first layer of every given block reads.

    In a plain network that is the block's input; in a residual one the branch's, while the shortcut
    stays as it is.

    Args:
        model: changed in place.
        blocks: from `blocks_of`; those that have a norm, or nothing that can be normalized, are left
            out.

    Returns:
        The change; `undo()` takes the norms away.

    Raises:
        UsageError: none of the blocks is without a norm.

    Examples:
        >>> from bathyscope.core import blocks_of
        >>> net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64))
        >>> x = torch.randn(8, 3)
        >>> plain = net(x)
        >>> change = normalize_(net, blocks_of(net, x)[1:])
        >>> hidden = F.layer_norm(torch.relu(net[0](x)), (64,))
        >>> torch.allclose(net(x), F.linear(hidden, net[2].weight, net[2].bias), atol=1e-6)
        True
        >>> change.undo(); torch.equal(net(x), plain)
        True
    """
    root = unwrap(model)
    layers = dict.fromkeys(name for block in blocks for name in layers_without_norm(root, block))
    if not layers:
        raise UsageError(
            "None of the given blocks can be normalized: each has a norm already, or no linear map, "
            "convolution, attention or recurrent layer; pass others."
        )
    return AddNorms(layers=tuple(layers)).apply_(root)


def layers_without_norm(model: nn.Module, block: Block) -> tuple[str, ...]:
    """The layers of a block before which a norm belongs: its first one; in attention blocks two.

    Those are the attention itself and the first linear map after it. None where the block has a norm.
    """
    modules = modules_of(model, block)
    if any(is_norm(module) for module in modules.values()):
        return ()
    attention = next((n for n, m in modules.items() if isinstance(m, nn.MultiheadAttention)), None)
    readers = [n for n, m in modules.items() if isinstance(m, READERS)]
    if attention is None:
        return tuple(readers[:1])
    outside = [n for n in readers if not n.startswith(attention)]
    return (attention, *outside[:1])


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm, by its name: every library has its own."""
    return "Norm" in type(module).__name__


def _normalize_inputs(
    module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    names = ("query", "key", "value") if isinstance(module, nn.MultiheadAttention) else ("input",)
    whole = isinstance(module, nn.modules.conv._ConvNd)

    def normal(value: object) -> object:
        if not isinstance(value, Tensor):
            return value  # a packed sequence has no axis to normalize over
        return F.layer_norm(value, value.shape[1:] if whole else value.shape[-1:])

    read = args[: len(names)]
    passed = {key: normal(value) if key in names else value for key, value in kwargs.items()}
    return (*map(normal, read), *args[len(names) :]), passed
