"""From a name on the command line to a model: a catalog name, or `package.module:factory`.

A module is looked for among the installed ones first, and then in the working folder, which is put at
the *end* of `sys.path`: a file there cannot take the place of a library.
"""

import importlib
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bathyscope.core.errors import BathyscopeError, UnknownName, UsageError
from bathyscope.core.json_values import JsonMapping

if TYPE_CHECKING:
    from torch import nn


@contextmanager
def call_user_code(what: str) -> Iterator[None]:
    """Turn whatever a user's own code raises, `sys.exit` included, into one sentence.

    Args:
        what: went wrong then, as the beginning of the sentence.

    Raises:
        UsageError: in place of the error.
    """
    try:
        yield
    except BathyscopeError:
        raise
    except SystemExit as error:
        raise UsageError(f"{what}: it called sys.exit({error.code!r}).") from error
    except Exception as error:
        raise UsageError(f"{what}: {type(error).__name__}: {error}") from error


def model_of(
    name: str, *, options: JsonMapping, sample_shape: Sequence[int], num_classes: int
) -> "nn.Module":
    """The network of a catalog name, fitted to the data, or what a factory returns.

    Args:
        name: as in `nets.names()`, or `package.module:factory`, looked up in the current folder too.
        options: keyword arguments of the network or the factory, which gets no others.
        sample_shape: of one input.
        num_classes: outputs that a catalog network is given.

    Raises:
        UsageError: there is no such name, or the factory returns no module.
    """
    from torch import nn

    if ":" not in name and not name.endswith(".py"):
        from bathyscope import nets

        # among the files there are: to ask for a name that is too long for a file is an error
        if name.isidentifier() and any(path.stem == name for path in Path().glob("*.py")):
            raise UsageError(
                f"There is no network named {name!r}, but a file {name}.py; write {name}:FACTORY with "
                "the name of the class or function in it that makes your network."
            )

        return nets.build_for(name, sample_shape, **{"num_classes": num_classes} | dict(options))
    factory = factory_of(name)
    given = f" with {dict(options)}" if options else ""
    with call_user_code(f"The factory {name} failed{given}"):
        model = factory(**options)
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"The factory {name} returned a {type(model).__name__}; it must return a torch module."
        )
    return model


def factory_of(name: str) -> Any:
    """What `package.module:factory` names.

    Raises:
        UsageError: the module cannot be imported or has no such attribute.
    """
    module_name, _, attribute = name.partition(":")
    parts = (*module_name.split("."), *attribute.split("."))
    if not all(part.isidentifier() for part in parts) or module_name.endswith(".py"):
        plain = module_name.removesuffix(".py").strip("./").replace("/", ".") or "package.module"
        raise UsageError(
            f"{name!r} is not a package.module:factory; write for instance "
            f"{plain}:{attribute or 'factory'}."
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    with call_user_code(f"{name}: the module {module_name} cannot be imported"):
        try:
            result: object = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name.split(".")[0]:
                raise  # what it imports itself is missing
            raise UsageError(
                f"{name}: there is no module {module_name}, neither installed nor in this folder; run "
                f"it in the folder that holds {error.name}."
            ) from error
    for part in attribute.split("."):
        if not hasattr(result, part):
            raise UnknownName(f"factory in {module_name}", attribute, _public_names(result))
        result = getattr(result, part)
    return result


def _public_names(holder: object) -> list[str]:
    """What a module or class defines and can be called, its own before what it imports."""
    own = getattr(holder, "__name__", "")
    result = [n for n, v in vars(holder).items() if not n.startswith("_") and callable(v)]
    return [n for n in result if getattr(vars(holder)[n], "__module__", "") == own] or result


def read_assignments(phrase: list[str]) -> dict[str, object]:
    """`KEY=VALUE` words as a dict; a value is read as TOML and, where it is none, as a string.

    Raises:
        UsageError: a word holds no `=`.

    Examples:
        >>> read_assignments(["lr=0.1", "schedule=step", "milestones=[0.5]"])
        {'lr': 0.1, 'schedule': 'step', 'milestones': [0.5]}
    """
    values: dict[str, object] = {}
    for word in phrase:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {word!r} is not KEY=VALUE; write for instance --set lr=0.1.")
        try:
            values[key] = tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            values[key] = text
    return values
