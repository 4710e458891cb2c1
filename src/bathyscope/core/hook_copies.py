"""Copies of a training's hooks with what they hold, for a copy of the training."""

import copy
import dis
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

from torch import nn
from torch.optim.optimizer import Optimizer

from bathyscope.core.hooks import Hook, Hooks, on_gradient


def copy_step_hooks(optimizer: Optimizer, twin: Optimizer, memo: dict[int, Any]) -> None:
    """Set copies of the hooks around an optimizer's step on its copy, which torch leaves out.

    Attributes of the optimizer's own, which torch leaves out too, are copied as well.

    What a hook holds is copied with it, so that the original counts no step of the copy. A hook that
    cannot be copied, or that writes to a global name, is left out with a warning.

    Args:
        optimizer: the original.
        twin: its copy.
        memo: of the `copy.deepcopy` that made the copy.
    """
    for name, value in vars(optimizer).items():
        if name not in vars(twin) and name != "step":  # a schedule puts its count around `step`
            vars(twin)[name] = copy.deepcopy(value, memo)
    before = getattr(optimizer, "_optimizer_step_pre_hooks", {})
    after = getattr(optimizer, "_optimizer_step_post_hooks", {})
    hooks = Hooks()
    for hook in _copied(before.values(), memo):
        hooks.before_step(twin, hook)
    for hook in _copied(after.values(), memo):
        hooks.after_step(twin, hook)


def copy_gradient_hooks(model: nn.Module, twin: nn.Module, memo: dict[int, Any]) -> None:
    """Set copies of the hooks on the gradients of a model's parameters on those of its copy."""
    for parameter, copied in zip(model.parameters(), twin.parameters(), strict=True):
        hooks: dict[int, Hook] | None = getattr(parameter, "_backward_hooks", None)
        if hooks and copied is not parameter:
            for hook in _copied(hooks.values(), memo):
                on_gradient(copied, hook)


def _copied(hooks: Iterable[Hook], memo: dict[int, Any]) -> Iterator[Hook]:
    for hook in hooks:
        try:
            yield _copy_function(hook, memo)
        except Exception as error:  # a user's objects may raise anything when they are copied
            name = getattr(hook, "__qualname__", type(hook).__name__)
            warnings.warn(
                f"bathyscope: the hook {name} cannot be copied ({error}); the copy trains without it.",
                stacklevel=4,
            )


def _copy_function(function: Any, memo: dict[int, Any]) -> Any:
    """A copy of a callable with what it holds: `copy.deepcopy` shares the variables of a closure."""
    if isinstance(function, MethodType):
        return MethodType(function.__func__, copy.deepcopy(function.__self__, memo))
    if isinstance(function, partial):
        arguments, keywords = copy.deepcopy((function.args, function.keywords), memo)
        return partial(_copy_function(function.func, memo), *arguments, **keywords)
    if not isinstance(function, FunctionType):
        return copy.deepcopy(function, memo)
    if any(i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for i in dis.get_instructions(function)):
        raise ValueError("it writes to a global name")
    if id(function) in memo or not (function.__closure__ or function.__defaults__):
        return memo.get(id(function), function)
    cells = tuple(_copy_cell(cell, memo) for cell in function.__closure__ or ())
    twin = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        copy.deepcopy(function.__defaults__, memo),
        cells,
    )
    twin.__kwdefaults__ = copy.deepcopy(function.__kwdefaults__, memo)
    memo[id(function)] = twin
    return twin


def _copy_cell(cell: CellType, memo: dict[int, Any]) -> CellType:
    """A variable of a closure; functions that share it share its copy."""
    if id(cell) not in memo:
        memo[id(cell)] = twin = CellType()
        contents = cell.cell_contents
        is_function = isinstance(contents, (FunctionType, partial))
        twin.cell_contents = (_copy_function if is_function else copy.deepcopy)(contents, memo)
    result: CellType = memo[id(cell)]
    return result


def empty_copies(model: nn.Module) -> dict[int, object]:
    """Copies of what is empty in the modules, by its id: a dozen dictionaries for hooks in each of them.

    `copy.deepcopy` makes each of them by way of pickling, which is most of its time for a small network.
    """
    held = (value for module in model.modules() for value in vars(module).values())
    return {id(v): type(v)() for v in held if type(v) in (dict, OrderedDict) and not v}
