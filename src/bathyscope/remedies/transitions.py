"""The layers that change the dimension of the body: those that norm preservation has to treat."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

from torch import nn

from bathyscope.linalg.convolution import LINEAR_MAPS, Convolution, convolution_of


@runtime_checkable
class DeclaresTransitions(Protocol):
    """A network that names its own transition layers."""

    def transition_layers(self) -> Mapping[str, nn.Module]:
        """Qualified name and layer, first to last."""
        ...


@dataclass(frozen=True, slots=True)
class _Layer:
    name: str
    module: nn.Module
    inputs: int
    outputs: int
    stride: tuple[float, ...]

    @property
    def changes_dimension(self) -> bool:
        return self.inputs != self.outputs or any(s != 1 for s in self.stride)


def transition_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Layers that carry the body from one dimension to another; the model is not run.

    Taken in this order, the first that finds any:

    1. those the model names itself, by a method `transition_layers()`;
    2. shortcut projections: a convolution or linear layer that changes channels or size, beside
       which the other layers of the same module, one after the other, lead from the same number of
       channels to the same number at the same stride (figure 1c of norm_preservation);
    3. in a network without such projections, every convolution or linear layer that changes
       channels or size, except the first and the last, which meet data and classes.

    Args:
        model: any network.

    Returns:
        Qualified name and layer, in the order of `named_modules()`; empty where nothing changes
        dimension.

    Examples:
        >>> class Block(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.conv1 = nn.Conv2d(8, 16, 3, stride=2)
        ...         self.conv2 = nn.Conv2d(16, 16, 3)
        ...         self.downsample = nn.Conv2d(8, 16, 1, stride=2)
        >>> list(transition_layers(nn.Sequential(nn.Conv2d(3, 8, 3), Block())))
        ['1.downsample']
    """
    if isinstance(model, DeclaresTransitions):
        declared = dict(model.transition_layers())
        if declared:
            return declared
    layers = _linear_layers(model)
    result = _projections(model, layers)
    if not result:
        result = [layer for layer in layers[1:-1] if layer.changes_dimension]
    return {layer.name: layer.module for layer in result}


def _linear_layers(model: nn.Module) -> list[_Layer]:
    return [
        _layer(name, module)
        for name, module in model.named_modules()
        if isinstance(module, LINEAR_MAPS)
    ]


def _layer(name: str, module: nn.Module) -> _Layer:
    conv: Convolution = convolution_of(module)
    outputs, inputs = conv.channels
    if conv.transposed:
        stride = tuple(1 / s for s in conv.stride)
        return _Layer(name, module, outputs, inputs, stride)
    return _Layer(name, module, inputs, outputs, tuple(float(s) for s in conv.stride))


# More linear layers than any published residual block holds: a larger module is a stage.
_LARGEST_BLOCK = 12


def _projections(model: nn.Module, layers: list[_Layer]) -> list[_Layer]:
    """For each module that is a block, the layer beside which its other layers are a chain."""
    result = set()
    for scope, module in model.named_modules():
        if isinstance(module, LINEAR_MAPS):
            continue
        prefix = f"{scope}." if scope else ""
        inside = [layer for layer in layers if layer.name.startswith(prefix)]
        if 2 <= len(inside) <= _LARGEST_BLOCK:
            beside = [layer for layer in inside if _is_beside_a_chain(layer, inside)]
            if beside:
                result.add(_most_unlike_the_rest(beside, inside, prefix).name)
    return [layer for layer in layers if layer.name in result]


def _most_unlike_the_rest(beside: list[_Layer], inside: list[_Layer], prefix: str) -> _Layer:
    """The one whose name stands most alone, where a chain's own last layer would fit as well.

    In conv1 16→16, conv2 16→16, conv3 16→64, downsample 16→64 either of the last two may be beside
    the other three; `conv3` is named as its neighbors are.
    """

    def kind(layer: _Layer) -> str:
        return layer.name.removeprefix(prefix).split(".")[0].rstrip("0123456789_")

    kinds = [kind(layer) for layer in inside]
    return min(reversed(beside), key=lambda layer: kinds.count(kind(layer)))


def _is_beside_a_chain(layer: _Layer, inside: list[_Layer]) -> bool:
    rest = [other for other in inside if other is not layer]
    if not layer.changes_dimension:
        return False
    joined = all(a.outputs == b.inputs for a, b in pairwise(rest))
    ends = (rest[0].inputs, rest[-1].outputs) == (layer.inputs, layer.outputs)
    return joined and ends and _total_stride(rest) == _total_stride([layer])


def _total_stride(layers: list[_Layer]) -> tuple[float, ...]:
    total: tuple[float, ...] = ()
    for layer in layers:
        if layer.stride:
            total = tuple(
                a * b
                for a, b in zip(total or (1.0,) * len(layer.stride), layer.stride, strict=False)
            )
    return total
