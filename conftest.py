"""Shapes in signatures are checked under test only: jaxtyping's import hook with beartype.

What the hook would do at the import of a function is done at its first call. What stands inside of functions
is left out: it would be prepared again whenever the outer one runs, and the hook need not look for it. A
signature without shapes is checked by beartype alone. Together this takes two thirds off their cost.

With BATHYSCOPE_TYPECHECK=1 each function is checked at its first calls in every test, which says as much as
the thousands that may follow in a training; with BATHYSCOPE_TYPECHECK=all at every call.
"""

import gc
import os
import zlib
from collections.abc import Generator
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest

# Some virtual machines announce AMX and stop at its first instruction (bfloat16 matrix products).
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


CHECKED_CALLS = inf if os.environ.get("BATHYSCOPE_TYPECHECK") == "all" else 20
"""How many calls of a function are checked in one test."""

_NOW = SimpleNamespace(test=0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Every test counts the calls anew, whatever ran before it."""
    _NOW.test += 1


def _check_signatures() -> None:
    import ast
    import functools
    import inspect
    import sys
    import typing
    from types import FunctionType, ModuleType

    import jaxtyping
    from beartype import BeartypeConf, beartype
    from jaxtyping import AbstractArray, _decorator, _import_hook, config
    from torch.compiler import is_compiling

    eager, now = jaxtyping.jaxtyped, _NOW
    # the hook wants a name: beartype, for which a whole number is a float, as it is for mypy
    # and keeps what it compiled under that name: another version of this file has another one
    checks = ModuleType(f"typechecks_under_test_{zlib.crc32(Path(__file__).read_bytes()):x}")
    checks.check = beartype(conf=BeartypeConf(is_pep484_tower=True))

    def is_plain(hint: object) -> bool:
        """Whether beartype alone understands it: no shape, and no name that is to be looked up."""
        if isinstance(hint, str | typing.ForwardRef):
            return False
        if inspect.isclass(hint) and issubclass(hint, AbstractArray):
            return False
        inside = hint if isinstance(hint, list | tuple) else typing.get_args(hint)
        return all(map(is_plain, inside))

    def checked(fn: FunctionType) -> FunctionType:
        plain = all(map(is_plain, fn.__annotations__.values()))
        if plain and not inspect.isgeneratorfunction(fn):
            return checks.check(fn)
        return eager(fn, typechecker=checks.check)

    def lazy(fn: object = None, *, typechecker: object = None) -> object:
        if fn is None:
            return functools.partial(lazy, typechecker=typechecker)
        if not isinstance(fn, FunctionType):  # a class or a property: comes back with its functions
            return eager(fn, typechecker=typechecker)
        if hasattr(fn, "is_checked_at_first_call"):
            return fn
        result: FunctionType | None = None
        test, left = -1, CHECKED_CALLS

        @functools.wraps(fn)
        def at_first_calls(*args: object, **kwargs: object) -> object:
            nonlocal result, test, left
            if is_compiling():  # what is traced would depend on the count
                return fn(*args, **kwargs)
            if test != now.test:
                test, left = now.test, CHECKED_CALLS
            if left <= 0 or config.jaxtyping_disable:
                return fn(*args, **kwargs)
            left -= 1
            if result is None:
                result = checked(fn)
            return result(*args, **kwargs)

        at_first_calls.is_checked_at_first_call = True
        return at_first_calls

    class OutermostFunctions(_import_hook.JaxtypingTransformer):
        """Puts the decorator on functions and classes without a look at what stands in a function."""

        def generic_visit(self, node: ast.AST) -> None:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
                super().generic_visit(node)

    sys.modules[checks.__name__] = checks
    _import_hook.JaxtypingTransformer = OutermostFunctions
    jaxtyping.jaxtyped = _decorator.jaxtyped = lazy
    jaxtyping.install_import_hook("bathyscope", f"{checks.__name__}.check")


if os.environ.get("BATHYSCOPE_TYPECHECK"):
    _check_signatures()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What thousands of tests and their modules are made of is no garbage, nor looked through for it.

    It is no model that a watch could find either, which looks through all objects that live.
    """
    gc.disable()
    result = yield
    gc.enable()
    gc.freeze()
    return result
