"""What every remedy is: a small piece of data that can be applied, undone, described and printed as code."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal, get_args

import torch
from pydantic import BaseModel, ConfigDict
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.remedies.change import Change

Rung = Literal["settings", "weights", "activations", "structure"]
"""How deep a remedy cuts, mildest first."""

RUNGS: tuple[Rung, ...] = get_args(Rung)


class Remedy(BaseModel, ABC):
    """One change of a network or its optimizer, as data; a recipe holds several.

    A remedy knows no reason and no batch: what depends on either was worked out before and stands in
    its fields, so that the same remedy gives the same network elsewhere.

    Attributes:
        level: how deep it cuts.
        in_weights: whether a state dict holds all that it changed, or it concerns the optimizer only;
            where it does not, weights saved after it need it in the network they are loaded into.
        helpers: what `code()` calls: functions of this package, or the text of others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    level: ClassVar[Rung]
    in_weights: ClassVar[bool] = True
    helpers: ClassVar[tuple[Callable[..., object] | str, ...]] = ()

    @property
    @abstractmethod
    def description(self) -> str:
        """What is done, in words."""

    @property
    def num_added(self) -> int:
        """How many computations it adds to every pass of the network."""
        return 0

    @abstractmethod
    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Change:
        """Change the model or the optimizer in place.

        Raises:
            UsageError: it does not fit them; both are as they were.
        """

    @abstractmethod
    def code(self) -> str:
        """The same as PyTorch code over the names `model` and `optimizer`."""


def submodule(model: nn.Module, name: str) -> nn.Module:
    """The module of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return model.get_submodule(name)
    except AttributeError as error:
        raise UsageError(
            f"The network has no module {name!r}; the recipe was made for another one."
        ) from error


def python_string(name: str) -> str:
    """A name between quotes, whatever letters are in it: a recipe may come from anyone.

    Examples:
        >>> print(python_string('layer1"); import os'))
        "layer1\\"); import os"
    """
    return json.dumps(name, ensure_ascii=False) if name.isprintable() else repr(name)


def python_list(names: tuple[str, ...]) -> str:
    """The names as a Python list over several lines where they are many.

    Examples:
        >>> python_list(("a", "b"))
        '["a", "b"]'
    """
    quoted = [python_string(name) for name in names]
    flat = f"[{', '.join(quoted)}]"
    if len(flat) <= 90:
        return flat
    lines, line = [], "   "
    for item in quoted:
        if len(line) + len(item) > 95:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join(["[", *lines, line, "]"])
