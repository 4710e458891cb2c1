"""What a module takes or gives, and the tensors in it: lone, or in tuples, mappings and dataclasses."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn


def tensors_in(value: object) -> Iterator[Tensor]:
    """Every tensor in nested tuples, lists, mappings and dataclass-like outputs, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name))


def main_tensor(value: object) -> Tensor | None:
    """The tensor that a block passes on: the first floating one in its output or input.

    Examples:
        >>> main_tensor((torch.zeros(2, 3), {"attention": torch.ones(1)})).shape
        torch.Size([2, 3])
    """
    first = value[0] if isinstance(value, tuple) and value else value
    if isinstance(first, Tensor) and first.is_floating_point():  # as of most modules
        return first
    return next((t for t in tensors_in(value) if t.is_floating_point()), None)


def predictions(output: object) -> Tensor | None:
    """What a model puts out for its samples: the main tensor, or the next where that is a lone loss.

    Examples:
        >>> predictions((torch.tensor(0.5), torch.zeros(8, 3))).shape
        torch.Size([8, 3])
    """
    return next((t for t in tensors_in(output) if t.is_floating_point() and t.ndim), None)


def replace_main_tensor(value: Any, tensor: Tensor) -> Any:
    """The value with its main tensor replaced, in the form in which the module gave it.

    Examples:
        >>> replace_main_tensor((None, torch.zeros(1), torch.ones(1)), torch.full((1,), 7.0))
        (None, tensor([7.]), tensor([1.]))
    """
    if isinstance(value, Tensor):
        return tensor
    if isinstance(value, Mapping):
        key = next(k for k, item in value.items() if main_tensor(item) is not None)
        return type(value)({**value, key: replace_main_tensor(value[key], tensor)})  # type: ignore[call-arg]
    if isinstance(value, (tuple, list)):
        index = next(i for i, item in enumerate(value) if main_tensor(item) is not None)
        items = list(value)
        items[index] = replace_main_tensor(items[index], tensor)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    names = value.__dataclass_fields__
    name = next(n for n in names if main_tensor(getattr(value, n)) is not None)
    return replace(value, **{name: replace_main_tensor(getattr(value, name), tensor)})


def map_tensors(value: object, change: Callable[[Tensor], Tensor]) -> object:
    """The same nested inputs with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_tensors(item, change) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(map_tensors(item, change) for item in value)
    return value


def copy_tensors(value: object) -> Any:
    """The same nested inputs with every tensor cloned: a model may overwrite its input in place."""
    return map_tensors(value, torch.clone)


def first_samples(value: object, count: int) -> Any:
    """The first samples of every dense tensor with as many entries as the first tensor has.

    Examples:
        >>> first_samples((torch.zeros(5, 2), torch.zeros(5), torch.zeros(3)), 2)
        (tensor([[0., 0.],
                [0., 0.]]), tensor([0., 0.]), tensor([0., 0., 0.]))
    """
    samples = next((len(t) for t in tensors_in(value) if t.ndim), 0)

    def cut(tensor: Tensor) -> Tensor:
        is_sampled = tensor.layout is torch.strided and tensor.ndim and len(tensor) == samples
        return tensor[:count] if is_sampled else tensor

    return map_tensors(value, cut)


def class_axis(output: Tensor, targets: Tensor) -> int:
    """The axis of the classes: the last of (samples, tokens, classes) with a label per token, else 1.

    Where there are as many tokens as classes nothing distinguishes them, and it is 1 as torch has it.

    Examples:
        >>> import torch
        >>> class_axis(torch.zeros(2, 3, 4), torch.zeros(2, 3).long())
        -1
        >>> class_axis(torch.zeros(2, 4, 3), torch.zeros(2, 3).long())
        1
    """
    of_tokens = output.shape[:-1] == targets.shape and output.shape[2:] != targets.shape[1:]
    return -1 if of_tokens else 1


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
