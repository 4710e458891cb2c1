"""What autograd's graph shows of a network: the activation at its end, the form of its loss, linearity."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor
from torch.autograd.graph import Node

Activation = Literal[
    "softmax", "sigmoid", "relu", "tanh", "log-softmax", "softplus", "elu", "other", "none"
]

# Backward nodes that hand values on as they are, in another shape, order or selection.
_TRANSPARENT = frozenset(
    {
        *("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Transpose", "Permute"),
        *("Clone", "ToCopy", "Alias", "Slice", "Select", "Expand", "T", "Unbind", "Split"),
    }
)
_ACTIVATIONS: dict[str, Activation] = {
    "Softmax": "softmax",
    "Sigmoid": "sigmoid",
    "Hardsigmoid": "sigmoid",
    "Relu": "relu",
    "Threshold": "relu",
    "Tanh": "tanh",
    "LogSoftmax": "log-softmax",
    "Softplus": "softplus",
    "Elu": "elu",
    "Hardtanh": "other",
    "Gelu": "other",
    "Silu": "other",
    "LeakyRelu": "other",
    "Exp": "other",
    "Clamp": "other",
    "ClampMin": "relu",
    "ClampMax": "other",
}
_CLAMPS = ("Clamp", "ClampMin", "ClampMax", "Hardtanh")
_LOWER, _UPPER = ("_saved_min", "_saved_min_val"), ("_saved_max", "_saved_max_val")
RANGES: dict[Activation, tuple[float, float]] = {
    "softmax": (0.0, 1.0),
    "sigmoid": (0.0, 1.0),
    "relu": (0.0, float("inf")),
    "softplus": (0.0, float("inf")),
    "tanh": (-1.0, 1.0),
    "elu": (-1.76, float("inf")),
}
"""What an activation can give; SELU is an ELU whose lower end is −1.76."""

_MAPS = frozenset({"Addmm", "Mm", "Convolution"})
# Linear in what comes before them; a product is linear where one of its factors is constant.
_LINEAR = (
    _TRANSPARENT
    | _MAPS
    | frozenset(
        {
            *("Add", "Sub", "Sum", "Mean", "Neg", "AvgPool1D", "AvgPool2D", "AvgPool3D"),
            *("AdaptiveAvgPool2D", "AdaptiveAvgPool3D", "NativeBatchNorm", "Embedding", "Cat"),
            *("ConstantPadNd", "UpsampleNearest2D", "UpsampleBilinear2D", "NativeDropout"),
            *("AccumulateGrad", "Div", "Mul"),
        }
    )
)


def operation(node: Node) -> str:
    """The name of what a backward node differentiates: `Addmm`, `Relu`.

    Examples:
        >>> import torch
        >>> operation(torch.ones(2, requires_grad=True).relu().grad_fn)
        'Relu'
    """
    return node.name().rpartition("::")[2].rstrip("0123456789").removesuffix("Backward")


@dataclass(frozen=True, slots=True)
class OutputActivation:
    """The activation function a network ends with, and its node in the graph."""

    name: Activation
    node: Node | None

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value it can give."""
        low, high = RANGES.get(self.name, (-float("inf"), float("inf")))
        if self.node is None or operation(self.node) not in _CLAMPS:
            return low, high
        return (
            _saved_number(self.node, _LOWER, -float("inf")),
            _saved_number(self.node, _UPPER, float("inf")),
        )


def _saved_number(node: Node, names: tuple[str, ...], otherwise: float) -> float:
    """The first of these attributes of a backward node that is a number."""
    values = (getattr(node, name, None) for name in names)
    return next((float(value) for value in values if isinstance(value, (int, float))), otherwise)


def output_activation(output: Tensor) -> OutputActivation:
    """The activation at the end of a network, reshapes and selections looked through.

    Examples:
        >>> import torch
        >>> logits = torch.ones(2, 3, requires_grad=True) * 2
        >>> output_activation(logits.softmax(1).squeeze()).name, output_activation(logits).name
        ('softmax', 'none')
    """
    node = _first_opaque(output.grad_fn)
    if node is None:
        return OutputActivation("none", None)
    name = _ACTIVATIONS.get(operation(node), "none")
    return OutputActivation(name, node if name != "none" else None)


def operations_between(loss: Tensor, output: Tensor) -> frozenset[str]:
    """The operations that make the loss from the output."""
    end = output.grad_fn
    result: set[str] = set()
    waiting, seen = [loss.grad_fn], {end}
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        result.add(operation(node))
        waiting.extend(following for following, _ in node.next_functions)
        if len(seen) > 2000:  # the loss does not go through this output
            return frozenset()
    return frozenset(result)


def is_linear(output: Tensor) -> bool:
    """Whether nothing but linear maps, two or more of them, leads to the output's activation.

    The activation at the very end belongs to the loss. Batch norms count as linear: they shift and
    rescale.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> x = torch.randn(4, 3)
        >>> stack = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2), nn.Sigmoid())
        >>> is_linear(stack(x)), is_linear(nn.Linear(3, 2)(x))
        (True, False)
    """
    maps, end = 0, _below_activation(output)
    for node in _nodes(end):
        name = operation(node)
        factors = sum(following is not None for following, _ in node.next_functions)
        if name not in _LINEAR or (name in ("Mul", "Div") and factors > 1):
            return False
        if name in ("Add", "Sub") and factors == 1 and node is not end:
            return False  # added without a gradient, as a straight-through estimate is, it may be anything
        maps += name in _MAPS
    return maps >= 2


@dataclass(frozen=True, slots=True)
class AdjacentMaps:
    """Linear maps in a row within a network.

    Attributes:
        pairs: how many follow one another with nothing but reshapes between them.
        fraction: of all maps but the first; a stem or a head without an activation of its own is one
            pair, which costs a deep network nothing.
        weights: the matrices of each pair, the earlier first.
    """

    pairs: int
    fraction: float
    weights: tuple[tuple[Tensor | None, Tensor | None], ...] = field(default=(), repr=False)


def adjacent_maps(output: Tensor) -> AdjacentMaps:
    """The pairs of linear maps that follow one another with nothing but reshapes between them.

    A pair with a bottleneck between them is left out: it lowers the rank, which a single map of
    that shape could not.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> one, two, three = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        >>> adjacent_maps(three(two(one(torch.randn(4, 3))).relu()))
        AdjacentMaps(pairs=1, fraction=0.5)
    """
    pairs: list[tuple[Tensor | None, Tensor | None]] = []
    nodes = list(_nodes(output.grad_fn))
    maps = sum(operation(node) in _MAPS for node in nodes)
    readers = Counter(following for node in nodes for following, _ in node.next_functions)
    for node in nodes:
        if operation(node) != "Addmm":
            continue
        width = _width_in(node)
        before = _first_opaque(node.next_functions[1][0])
        if before is None or readers[before] > 1:  # a shortcut reads it too
            continue
        if operation(before) == "Addmm" and width is not None:
            outer = [side for side in (_width_in(before), _width_out(node)) if side is not None]
            if width >= min(outer, default=0):
                pairs.append((_matrix(before), _matrix(node)))
    return AdjacentMaps(len(pairs), len(pairs) / max(1, maps - 1), tuple(reversed(pairs)))


def _matrix(node: Node) -> Tensor | None:
    """The parameter that an `Addmm` multiplies by, where it is one."""
    leaf = _first_opaque(node.next_functions[2][0])
    return getattr(leaf, "variable", None)


def _width_in(node: Node) -> int | None:
    """Columns of the matrix from the left, of an `Addmm`."""
    sizes = getattr(node, "_saved_mat1_sym_sizes", None)
    return int(sizes[-1]) if sizes else None


def _width_out(node: Node) -> int | None:
    sizes = getattr(node, "_saved_mat2_sym_sizes", None)
    return int(sizes[-1]) if sizes else None


def _below_activation(output: Tensor) -> Node | None:
    result = output_activation(output)
    return output.grad_fn if result.node is None else result.node.next_functions[0][0]


def _first_opaque(node: Node | None) -> Node | None:
    while node is not None and operation(node) in _TRANSPARENT:
        node = next((following for following, _ in node.next_functions if following), None)
    return node


def _nodes(start: Node | None) -> Iterator[Node]:
    waiting, seen = [start], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting.extend(following for following, _ in node.next_functions)
