"""Submodules and names that are imported when they are first used (PEP 562)."""

import importlib
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any


def lazy(
    package: str, *, modules: Iterable[str] = (), names: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package.

    Args:
        package: the package's `__name__`.
        modules: submodules to import on first use.
        names: a name and the submodule it comes from.

    Examples:
        >>> getattr_, dir_, all_ = lazy("bathyscope", names={"UsageError": "core.errors"})
        >>> all_
        ['UsageError']
        >>> getattr_("UsageError").__module__
        'bathyscope.core.errors'
    """
    submodules = frozenset(modules)
    origins = dict(names or {})
    public = sorted({*submodules, *origins})

    def __getattr__(name: str) -> Any:
        if name in submodules:
            return _load(f"{package}.{name}")
        if name in origins:
            value = getattr(_load(f"{package}.{origins[name]}"), name)
            setattr(sys.modules[package], name, value)
            return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*public, *vars(sys.modules[package])})

    return __getattr__, __dir__, public


def _load(name: str) -> ModuleType:
    """Import a module; what it loads (rich does) may not move the random numbers of the user's run."""
    state = random.getstate()
    try:
        return importlib.import_module(name)
    finally:
        random.setstate(state)
