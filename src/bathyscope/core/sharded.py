"""What `fully_shard` does to a model, seen from outside: classes of its own, parameters in pieces."""

from collections.abc import Iterable

from torch import nn

FSDP = "torch.distributed.fsdp"
"""The package that `fully_shard` comes from."""


def own_class(module: nn.Module) -> type[nn.Module]:
    """The class of a module as its author wrote it; `fully_shard` puts one of its own before it.

    Examples:
        >>> own_class(nn.Linear(2, 2)).__name__
        'Linear'
    """
    kind = type(module)
    if kind.__mro__[1].__module__.startswith(FSDP):
        result: type[nn.Module] = kind.__mro__[2]
        return result
    return kind


def sharded_modules(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Those that `fully_shard` was called on; each has a method `reshard`."""
    return [m for m in modules if own_class(m) is not type(m)]


def is_sharded(model: nn.Module) -> bool:
    """Whether parameters lie in pieces on several processes, as `fully_shard` puts them."""
    pieces = any(hasattr(p, "placements") for p in model.parameters())
    return pieces or bool(sharded_modules(model.modules()))


def reshard(sharded: Iterable[nn.Module]) -> None:
    """Let go of the whole parameters that a pass has left behind in any of them, as its end would."""
    for module in sharded:
        module.reshard()  # type: ignore[operator]
