"""The modules and parameters of a model by name, walked once for a row of measurements; which are sharded.

Of a hundred modules a walk takes as long as a few layers do, and some fifty questions of a diagnosis begin
with one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from torch import nn

T = TypeVar("T")

FSDP = "torch.distributed.fsdp"
"""The package of `fully_shard`, which puts a class of its own before a module's, and parameters in pieces."""

_known: ContextVar[dict[tuple[int, object], tuple[nn.Module, Any]] | None]
_known = ContextVar("known_of_models", default=None)


@contextmanager
def walked_once() -> Iterator[None]:
    """Within, what `once` has found of a model is taken to hold: no module or parameter comes or goes."""
    if _known.get() is not None:  # inside of another one
        yield
        return
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def once(model: nn.Module, find: Callable[[nn.Module], T]) -> T:
    """What a function finds of a model, computed once inside of `walked_once`; it is only read.

    Examples:
        >>> with walked_once():
        ...     layer = nn.Linear(2, 2)
        ...     print(named_modules(layer) is named_modules(layer))
        True
    """
    known = _known.get()
    if known is None:
        return find(model)
    key = id(model), find
    if key not in known:
        known[key] = model, find(model)  # the model is held, so that its id stays its own
    result: T = known[key][1]
    return result


def named_modules(model: nn.Module) -> Mapping[str, nn.Module]:
    """The modules of a model by name, each once."""
    return once(model, _modules)


def named_parameters(model: nn.Module) -> Mapping[str, nn.Parameter]:
    """The parameters of a model by name, each once."""
    return once(model, _parameters)


def _modules(model: nn.Module) -> dict[str, nn.Module]:
    return dict(model.named_modules())


def _parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    return dict(model.named_parameters())


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
