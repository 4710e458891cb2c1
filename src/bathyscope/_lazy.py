"""Submodules and names that are imported when they are first used (PEP 562)."""

import ast
import importlib
import importlib.util
import pkgutil
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

    class LazyPackage(ModuleType):
        """A package in which a function and the file it lives in may have one name."""

        def __setattr__(self, name: str, value: object) -> None:
            # the import of the file `diagnose` would put the module where the function belongs
            if not (name in origins and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    sys.modules[package].__class__ = LazyPackage

    def __getattr__(name: str) -> Any:
        if name in submodules:
            return _load(f"{package}.{name}")
        if name in origins:
            value = getattr(_load(f"{package}.{origins[name]}"), name)
            setattr(sys.modules[package], name, value)
            return value
        if not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}"):
            return _load(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*public, *vars(sys.modules[package])})

    return __getattr__, __dir__, public


def lazy_names(
    package: str,
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The same for the names that a package's `__init__.pyi` imports, each from one of its modules.

    The type checker reads that file, and so does this: the names stand in one place.

    Examples:
        >>> getattr_, dir_, all_ = lazy_names("bathyscope.claims")
        >>> "Claim" in all_, getattr_("Claim").__module__
        (True, 'bathyscope.claims.claim')
    """
    stub = pkgutil.get_data(package, "__init__.pyi")
    names = {
        alias.name: statement.module.removeprefix(f"{package}.")
        for statement in ast.parse(stub or b"").body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }
    return lazy(package, names=names)


def _load(name: str) -> ModuleType:
    """Import a module; what it loads (rich does) may not move the random numbers of the user's run."""
    state = random.getstate()
    try:
        return importlib.import_module(name)
    finally:
        random.setstate(state)
