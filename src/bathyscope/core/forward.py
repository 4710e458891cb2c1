"""Calling a model with the inputs of a batch, whatever form they have, in the autocast of the user's.

Autocast is on in the passes of their model, and off where something is computed of them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from inspect import Parameter, signature

import torch
from torch import nn


def forward(model: nn.Module, inputs: object) -> object:
    """Call the model: a tuple is positional arguments, a mapping is keyword arguments.

    A model whose `forward` takes one argument alone gets a tuple of several as it is.
    """
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, (tuple, list)) and not (
        len(inputs) > 1 and _takes_one(type(model).forward)
    ):
        return model(*inputs)
    return model(inputs)


@cache
def _takes_one(function: Callable[..., object]) -> bool:
    """Whether a `forward` takes one argument beside `self`, and nothing else."""
    try:
        asked = list(signature(function).parameters.values())
    except (TypeError, ValueError):  # of a C extension, or made by torch.jit
        return False
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return len(asked) == 2 and all(parameter.kind in kinds for parameter in asked)


_in_passes: ContextVar[tuple[tuple[str, torch.dtype], ...]] = ContextVar("autocast", default=())

no_autocast = torch._C._DisableAutocast
"""Within, nothing is cast: what hooks compute in the middle of a pass that is."""


@contextmanager
def autocast_in_passes_alone() -> Iterator[None]:
    """Within, autocast that was on is on in `users_autocast` alone; also a decorator.

    Norms, Gram matrices and eigenvalues would otherwise be computed in half precision.

    Examples:
        >>> x = torch.ones(2, 2)
        >>> with torch.autocast("cpu", dtype=torch.bfloat16), autocast_in_passes_alone():
        ...     alone = (x @ x).dtype
        ...     with users_autocast():
        ...         print(alone, (x @ x).dtype)
        torch.float32 torch.bfloat16
    """
    enabled = _enabled()
    if not enabled:
        yield
        return
    token = _in_passes.set(enabled)
    try:
        with no_autocast():
            yield
    finally:
        _in_passes.reset(token)


@contextmanager
def autocast_nowhere() -> Iterator[None]:
    """Within, passes are not cast either: an error is claimed for what is computed of them."""
    token = _in_passes.set(())
    try:
        with no_autocast():
            yield
    finally:
        _in_passes.reset(token)


def users_autocast() -> AbstractContextManager[object]:
    """Around a pass of the user's model, or their loss: autocast as it was when they called."""
    enabled = _in_passes.get()
    if not enabled:
        return nullcontext()
    stack = ExitStack()
    for device, dtype in enabled:
        stack.enter_context(torch.autocast(device, dtype=dtype))
    return stack


def _enabled() -> tuple[tuple[str, torch.dtype], ...]:
    if not torch._C._is_any_autocast_enabled():
        return ()
    accelerator = torch.accelerator.current_accelerator()
    devices = {"cpu", "cuda", "cpu" if accelerator is None else accelerator.type}
    return tuple((d, torch.get_autocast_dtype(d)) for d in devices if torch.is_autocast_enabled(d))
