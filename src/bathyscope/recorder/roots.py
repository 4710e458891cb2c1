"""Finding the models of a loop that nobody names: the root modules that hold given parameters."""

import gc
from collections.abc import Iterator, Sequence

from torch import Tensor, nn

WRAPPERS = {
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "AveragedModel": "module",
}
"""Modules that stand around another one, and the attribute under which they hold it."""

_MOST_ROOTS = 12


def inner_of(module: nn.Module) -> nn.Module | None:
    """The module inside of a wrapper."""
    name = WRAPPERS.get(type(module).__name__)
    return None if name is None else module._modules.get(name)


def without_prefix(name: str) -> str:
    """The name of a parameter without what wrappers put before it."""
    for prefix in ("module.", "_orig_mod."):
        name = name.removeprefix(prefix)
    return name


def roots_of(parameters: Sequence[Tensor]) -> Iterator[tuple[nn.Module, bool]]:
    """Root modules that hold some of the parameters (True), and others of the same structure (False).

    A root is a module that no other one holds, wrappers apart: what a wrapper holds is a root, too.
    """
    wanted = {id(p) for p in parameters}
    modules = [m for m in gc.get_objects() if issubclass(type(m), nn.Module)]
    held = {
        id(child)
        for m in modules
        if "_modules" in vars(m) and type(m).__name__ not in WRAPPERS
        for child in m._modules.values()
        if child is not None
    }
    roots = [m for m in modules if id(m) not in held and "_parameters" in vars(m)]
    trained = [m for m in roots if any(id(p) in wanted for p in m.parameters())]
    # most of its own first: a wrapper of several models comes behind them
    trained = sorted(trained, key=lambda m: sum(1 for _ in m.parameters()))[:_MOST_ROOTS]
    shapes = [[tuple(p.shape) for p in m.parameters()] for m in trained]
    ids = {id(m) for m in trained}
    others = [
        m
        for m in roots
        if id(m) not in ids
        and any(True for _ in m.parameters())
        and [tuple(p.shape) for p in m.parameters()] in shapes
    ]
    for module in trained:
        yield module, True
    for module in others[:_MOST_ROOTS]:
        yield module, False


def mode_layers(module: nn.Module) -> tuple[str, ...]:
    """Kinds of layers inside that behave otherwise in eval mode."""
    result: set[str] = set()
    for layer in module.modules():
        if isinstance(
            layer, nn.modules.batchnorm._BatchNorm | nn.modules.instancenorm._InstanceNorm
        ):
            if layer.track_running_stats:
                result.add(type(layer).__name__)
        elif isinstance(layer, nn.modules.dropout._DropoutNd):
            if layer.p > 0:
                result.add(type(layer).__name__)
        elif isinstance(layer, nn.RNNBase | nn.MultiheadAttention):
            if layer.dropout > 0:
                result.add(f"dropout of {type(layer).__name__}")
        elif type(layer).__name__ == "_SpectralNorm" or any(
            type(hook).__name__ == "SpectralNorm" for hook in layer._forward_pre_hooks.values()
        ):
            result.add("spectral norm")
        elif isinstance(layer, nn.RReLU):
            result.add("RReLU")
    return tuple(sorted(result))


def frozen_statistics(module: nn.Module) -> tuple[str, ...]:
    """Batch norms whose running statistics cannot move in train mode."""
    return tuple(
        name
        for name, layer in module.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm)
        and layer.track_running_stats
        and layer.momentum == 0
    )
