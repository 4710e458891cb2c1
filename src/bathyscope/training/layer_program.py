"""A network of linear layers, ReLUs and sums read as a short list of instructions.

Written out like this, many runs of it can be trained without autograd, in memory that is taken once.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """v_out = f(v_addend + W v_source + b), f the identity or ReLU; values are numbered, the input is 0.

    Attributes:
        out: the value it makes.
        source: the value that W multiplies.
        addend: a value of the same size that is added, or none.
        weight: name of W among the network's parameters.
        bias: name of b, or none.
        relu: whether f is ReLU.
    """

    out: int
    source: int
    weight: str
    bias: str | None
    addend: int | None = None
    relu: bool = False


def layer_program(network: nn.Module, example: Tensor) -> list[Instruction] | None:
    """The instructions of a network in order, the last making its output; None where it is another kind.

    Args:
        network: to be read.
        example: a few inputs, one a row, to follow through it.

    Examples:
        >>> net = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2))
        >>> program = layer_program(net, torch.zeros(2, 3))
        >>> [(l.source, l.weight, l.bias, l.relu) for l in program]
        [(0, '0.weight', None, True), (1, '2.weight', '2.bias', False)]
    """
    if example.ndim != 2 or any(
        m._forward_hooks or m._forward_pre_hooks for m in network.modules()
    ):
        return None  # whoever hooked a layer counts on its being called
    from torch.fx.experimental.proxy_tensor import make_fx  # loads sympy: not for every user

    parameters = {name: p.detach() for name, p in network.named_parameters()}

    def forward(*inputs: Tensor) -> object:
        values = dict(zip(parameters, inputs[:-1], strict=True))
        return functional_call(network, values, (inputs[-1],))

    try:
        traced = make_fx(forward)(*parameters.values(), example)
    except (RuntimeError, TypeError, IndexError, AttributeError):
        return None  # its forward pass cannot be followed
    reader = _Reader(traced.graph, list(parameters))
    read = {v for layer in reader.layers for v in (layer.source, layer.addend)}
    idle = any(layer.out not in read for layer in reader.layers[:-1])
    return reader.layers if reader.understood and not idle else None


class _Reader:
    """Walks the graph once; a sum or ReLU becomes part of the layer that made its operand."""

    def __init__(self, graph: fx.Graph, parameters: list[str]) -> None:
        self.layers: list[Instruction] = []
        self.values: dict[fx.Node, int] = {}  # the value that a node stands for
        self.uses: dict[int, int] = {}  # readers of a value that are still to come
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        self.names = dict(zip(inputs, parameters, strict=False))  # the last input is x
        self._stands_for(inputs[-1], 0)
        steps = [node for node in graph.nodes if node.op != "placeholder"]
        self.understood = all(self._read(node) for node in steps)

    def _read(self, node: fx.Node) -> bool:
        operands = node.args
        if node.op == "output":
            return bool(self.layers) and self._value(operands[0]) == self.layers[-1].out
        if node.op != "call_function" or node.kwargs:
            return False
        if node.target is _ATEN.t.default and operands[0] in self.names:
            self.names[node] = self.names[operands[0]]
            return True
        if node.target is _ATEN.mm.default:
            return self._linear(node, operands[0], operands[1], None)
        if node.target is _ATEN.addmm.default:
            return self._linear(node, operands[1], operands[2], operands[0])
        if node.target not in (_ATEN.relu.default, _ATEN.add.Tensor):
            return False
        values = [self._value(operand) for operand in operands]
        known = [value for value in values if value is not None]
        return len(known) == len(values) and self._join(node, known)

    def _linear(self, node: fx.Node, source: Any, weight: Any, bias: object) -> bool:
        value, name = self._value(source), self.names.get(weight)
        unknown_bias = bias is not None and bias not in self.names
        # a weight that was not transposed multiplies from the other side
        if value is None or name is None or weight.op == "placeholder" or unknown_bias:
            return False
        if any(layer.weight == name for layer in self.layers):
            return False  # weights that are used twice
        self.uses[value] -= 1
        out = len(self.layers) + 1
        self.layers.append(
            Instruction(out=out, source=value, weight=name, bias=self.names.get(bias))
        )
        return self._stands_for(node, out)

    def _join(self, node: fx.Node, sources: list[int]) -> bool:
        for value in sources:
            self.uses[value] -= 1
        last = self.layers[-1] if self.layers else None
        # only the newest value can still change, and only if nobody else reads it
        if last is None or last.relu or last.out not in sources or self.uses[last.out]:
            return False
        if node.target is _ATEN.relu.default:
            self.layers[-1] = replace(last, relu=True)
        else:
            others = [s for s in sources if s != last.out]
            if last.addend is not None or len(others) != 1:
                return False
            self.layers[-1] = replace(last, addend=others[0])
        return self._stands_for(node, last.out)

    def _stands_for(self, node: fx.Node, value: int) -> bool:
        self.values[node] = value
        self.uses[value] = self.uses.get(value, 0) + len(node.users)
        return True

    def _value(self, operand: object) -> int | None:
        return self.values.get(operand) if isinstance(operand, fx.Node) else None


_ATEN = torch.ops.aten
