"""From a name on the command line to a model: a catalog name, or `package.module:factory`."""

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bathyscope.core.errors import BathyscopeError, UsageError

if TYPE_CHECKING:
    from torch import nn


def model_of(
    name: str, *, options: Mapping[str, Any], sample_shape: Sequence[int], num_classes: int
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

    if ":" not in name:
        from bathyscope import nets

        return nets.build_for(name, sample_shape, **{"num_classes": num_classes} | dict(options))
    model = _called(factory_of(name), options, name=name)
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
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(
            f"{name}: the module {module_name} cannot be imported: {error}."
        ) from error
    if not hasattr(module, attribute):
        raise UsageError(f"{name}: the module {module_name} has no {attribute!r}.")
    return getattr(module, attribute)


def _called(factory: Any, options: Mapping[str, Any], *, name: str) -> Any:
    try:
        return factory(**options)
    except BathyscopeError:
        raise
    except Exception as error:  # a user's own code may raise anything
        given = f" with {dict(options)}" if options else ""
        raise UsageError(
            f"The factory {name} failed{given}: {type(error).__name__}: {error}"
        ) from error
