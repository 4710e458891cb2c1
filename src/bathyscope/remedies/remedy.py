"""What every remedy is: a small piece of data that can be applied, undone, described and printed as code."""

import itertools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from pydantic import BaseModel, ConfigDict
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.remedies.change import Change

ChangeLevel = Literal["settings", "weights", "activations", "structure"]
"""How deep a remedy cuts, mildest first."""

CHANGE_LEVELS: tuple[ChangeLevel, ...] = get_args(ChangeLevel)


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of what a module reads or gives out, `{}` being the tensor.

    Attributes:
        prefix: of the subclass's name.
        before: what the module reads instead.
        after: what it gives out instead.
        scale: of what is added to the module's input, for a shortcut.
    """

    prefix: str
    before: str = ""
    after: str = ""
    scale: float | None = None


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

    level: ClassVar[ChangeLevel]
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

    def edits(self, model: nn.Module) -> dict[str, Edit]:
        """The same as changes of modules' `forward`, by the modules' names; empty where it is none."""
        return {}


class StructureRemedy(Remedy):
    """A remedy that changes what the network computes, which a state dict does not hold."""

    level: ClassVar[ChangeLevel] = "structure"
    in_weights: ClassVar[bool] = False


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
    """The names as a Python list, those that differ in a counting number as a comprehension.

    Examples:
        >>> python_list(("a", "b"))
        '["a", "b"]'
        >>> python_list(("stem", *(f"blocks.{i}.fc" for i in range(0, 12, 2))))
        '["stem", *(f"blocks.{i}.fc" for i in range(0, 12, 2))]'
    """
    parts = []
    for run in _runs(names):
        parts += [_counted(run)] if len(run) > 3 else [python_string(name) for name in run]
    if len(parts) == 1 and parts[0].startswith("*("):
        return f"[{parts[0][2:-1]}]"
    flat = f"[{', '.join(parts)}]"
    if len(flat) <= 90:
        return flat
    lines, line = [], "   "
    for item in parts:
        if len(line) + len(item) > 95:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join(["[", *lines, line, "]"])


def _runs(names: tuple[str, ...]) -> list[list[str]]:
    """The names cut where they no longer differ, in steps of one size, in one number alone."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _is_counted([*runs[-1], name]):
            runs[-1].append(name)
        else:
            runs.append([name])
    return runs


def _numbers(run: list[str]) -> tuple[str, list[int], str] | None:
    """What stands before the one number in which the names differ, the numbers, what stands after."""
    parts = [re.split(r"(?<![0-9])([0-9]+)(?![0-9])", name) for name in run]
    if len({len(p) for p in parts}) > 1 or any(not name.isprintable() for name in run):
        return None
    differ = [i for i, column in enumerate(zip(*parts, strict=True)) if len(set(column)) > 1]
    if len(differ) != 1 or differ[0] % 2 == 0:
        return None
    (at,) = differ
    numbers = [p[at] for p in parts]
    if any(str(int(n)) != n for n in numbers):  # as 007
        return None
    return "".join(parts[0][:at]), [int(n) for n in numbers], "".join(parts[0][at + 1 :])


def _is_counted(run: list[str]) -> bool:
    counted = _numbers(run)
    if counted is None:
        return False
    step = counted[1][1] - counted[1][0]
    return step > 0 and all(b - a == step for a, b in itertools.pairwise(counted[1]))


def _counted(run: list[str]) -> str:
    """For instance `*(f"blocks.{i}" for i in range(12))`."""
    counted = _numbers(run)
    assert counted is not None
    before, numbers, after = counted
    first, last = (
        json.dumps(part.replace("{", "{{").replace("}", "}}"), ensure_ascii=False)[1:-1]
        for part in (before, after)
    )
    return f'*(f"{first}{{i}}{last}" for i in {python_range(numbers)})'


def python_range(numbers: list[int]) -> str:
    """Numbers in steps of one size as a range.

    Examples:
        >>> python_range([2, 4, 6])
        'range(2, 8, 2)'
    """
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    first, end = numbers[0], numbers[-1] + step
    if step > 1:
        return f"range({first}, {end}, {step})"
    return f"range({first}, {end})" if first else f"range({end})"
