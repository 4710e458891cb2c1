"""The modules and parameters of a model by name, walked once for a row of measurements.

Of a hundred modules a walk takes as long as a few layers do, and some fifty questions of a diagnosis begin
with one.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from torch import nn

T = TypeVar("T")

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
