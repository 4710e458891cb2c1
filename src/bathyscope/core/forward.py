"""Calling a model with the inputs of a batch, whatever form they have."""

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature

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
