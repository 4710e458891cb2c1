"""Where remedies can go in a network: spans for shortcuts, layers for norms, ends of branches, the gain."""

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.core import Block
from bathyscope.core.batch import run_forward
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import Call, calls_of, modules_of, weighted_layers
from bathyscope.core.hooks import Hooks
from bathyscope.core.nested import copy_tensors, main_tensor
from bathyscope.core.preserve import preserve_model
from bathyscope.remedies.normalize import READERS, is_norm, layers_without_norm
from bathyscope.remedies.shortcut import Span, can_be_spanned

_ASIDE = ("shortcut", "downsample", "skip", "proj_shortcut")
"""Names of projections on a shortcut, which are not part of the branch."""

_FLAT = (nn.Tanh, nn.Sigmoid, nn.Softsign, nn.Hardtanh, nn.Hardsigmoid)
"""Activations that do not halve the mean square of what they read: a start of gain one fits them."""


@dataclass(frozen=True, slots=True)
class Places:
    """What was read off one forward pass.

    Attributes:
        spans: around each block that has no shortcut of its own and keeps its number of axes.
        residual: blocks that have a shortcut of their own.
        norms: layers before which a norm belongs: of each block without one, and the head.
        head: the layer whose output is the network's, by name; None where it is not known.
        gain: of a start that fits the activations.
    """

    spans: tuple[Span, ...]
    residual: tuple[Block, ...]
    norms: tuple[str, ...]
    head: str | None
    gain: float


def locations_of(model: nn.Module, inputs: object, blocks: Blocks) -> Places:
    """The places of a network for shortcuts, norms and a start that fits; it is left as it was."""
    calls = calls_of(model, inputs)
    readers = [c for c in calls if isinstance(c.module, READERS)]
    first = readers[0].name if readers else None
    head = _head(calls)
    residual = _residual_blocks(model, inputs, blocks)
    names = {block.name for block in residual}
    kinds = {block.kind for block in residual if block.kind not in ("Sequential", "Linear")}
    inner = [b for b in blocks if head is None or head.name not in modules_of(model, b)]
    spans = [
        (b.name, b.end)
        for b in inner
        if b.name not in names
        and can_be_spanned(b)
        and not (b.changes_dimension and (b.kind in kinds or first in modules_of(model, b)))
    ]
    norms = [name for b in inner for name in layers_without_norm(model, b) if name != first]
    if head is not None and head.name != first and not _follows_a_norm(head):
        norms.append(head.name)
    return Places(
        spans=tuple(dict.fromkeys(spans)),
        residual=tuple(residual),
        norms=tuple(dict.fromkeys(norms)),
        head=None if head is None else head.name,
        gain=1.0 if any(isinstance(m, _FLAT) for m in model.modules()) else math.sqrt(2),
    )


def _head(calls: list[Call]) -> Call | None:
    """The last linear map or convolution that is called."""
    maps = [c for c in calls if isinstance(c.module, (nn.Linear, nn.modules.conv._ConvNd))]
    return maps[-1] if maps else None


def _follows_a_norm(call: Call) -> bool:
    return call.follows is not None and is_norm(call.follows.module)


def _residual_blocks(model: nn.Module, inputs: object, blocks: Blocks) -> list[Block]:
    """The blocks that pass their input on when all of their parameters are zero."""
    modules = {
        b.name: model.get_submodule(b.name) for b in blocks if b.name == b.end and not b.call
    }
    modules = {n: m for n, m in modules.items() if next(m.children(), None) is not None}
    read: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[object, ...], dict[str, object]], None]:
        def hook(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            read.setdefault(name, copy.deepcopy((args, kwargs)))

        return hook

    result = []
    with preserve_model(model), torch.no_grad():
        with Hooks() as hooks:
            for name, module in modules.items():
                hooks.before_forward(module, keep(name), with_kwargs=True)
            run_forward(model, copy_tensors(inputs))
        for block in blocks:
            if block.name in read and _passes_on(modules[block.name], *read[block.name]):
                result.append(block)
    return result


def _passes_on(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    x = main_tensor(args) if args else main_tensor(kwargs)
    for parameter in module.parameters():
        parameter.zero_()
    try:
        y = main_tensor(module(*args, **kwargs))
    except Exception:  # a user's block may need what the blocks before it left behind
        return False
    if x is None or y is None or x.shape != y.shape or not bool(x.any()):
        return False
    return torch.allclose(x, y, rtol=1e-3, atol=1e-3 * float(x.abs().max()))


def last_layers(model: nn.Module, blocks: Iterable[Block]) -> tuple[str, ...]:
    """The last module of each block that has a weight, a norm included, on its branch where it names one.

    A factor on it acts on what the block, or its residual branch, gives out, and no later norm undoes it.
    """
    result = []
    for block in blocks:
        modules = modules_of(model, block)
        branch = f"{block.name}.branch"
        if branch in modules:
            inside = (branch, f"{branch}.")
            modules = {n: m for n, m in modules.items() if n == branch or n.startswith(inside[1])}
        named = [
            name
            for name, module in modules.items()
            if isinstance(getattr(module, "weight", None), Tensor)
            and not any(aside in name.split(".") for aside in _ASIDE)
        ]
        result.extend(named[-1:])
    return tuple(dict.fromkeys(result))


def unit_variance_factors(
    model: nn.Module, inputs: object, blocks: Iterable[Block]
) -> dict[str, float]:
    """The factor for every layer of the blocks with which it gives out unit variance on a batch.

    One forward pass does it: each layer's output is rescaled before the next layer reads it. Layers whose
    output does not vary are left alone.

    Examples:
        >>> from bathyscope.core import blocks_of
        >>> net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
        >>> x = torch.randn(256, 32)
        >>> with torch.no_grad():
        ...     _ = net[0].weight.mul_(1e-3), net[0].bias.zero_()
        >>> round(math.log10(unit_variance_factors(net, x, blocks_of(net, x))["0"]))
        3
    """
    layers = {name: m for block in blocks for name, m in weighted_layers(model, block).items()}
    names = {id(module): name for name, module in reversed(layers.items())}
    factors: dict[str, float] = {}

    def rescale(module: nn.Module, args: object, output: object) -> object:
        if not isinstance(output, Tensor):
            return None
        name = names[id(module)]
        if name not in factors:
            deviation = float(output.std())
            factors[name] = 1 / deviation if 0 < deviation < math.inf else 1.0
        return output * factors[name]

    with preserve_model(model, copy_parameters=False), Hooks() as hooks, torch.no_grad():
        for module in layers.values():
            hooks.after_forward(module, rescale)
        run_forward(model, copy_tensors(inputs))
    return {name: factor for name, factor in factors.items() if factor != 1}
