"""Switching off a block's residual branch, for layer deletion."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from bathyscope.core.calls import unwrap
from bathyscope.core.errors import UsageError
from bathyscope.core.hooks import Hooks
from bathyscope.core.nested import main_tensor, replace_main_tensor
from bathyscope.core.protocol import Droppable
from bathyscope.core.records import Block


@contextmanager
def drop_branch(model: nn.Module, block: Block) -> Iterator[None]:
    """Within, the block passes on its shortcut alone; without a shortcut of its own, its input.

    Raises:
        UsageError: the block has no branch to drop and its output differs in shape from its input.
    """
    model = unwrap(model)
    module = model.get_submodule(block.name)
    if isinstance(module, Droppable):
        before = module.branch_dropped
        module.branch_dropped = True
        try:
            yield
        finally:
            module.branch_dropped = before
        return
    if block.in_shape != block.out_shape:
        raise UsageError(
            f"Block {block.label!r} cannot be dropped: it maps {block.in_shape} to "
            f"{block.out_shape} and names no residual branch."
        )
    with _pass_input_on(model, block):
        yield


@contextmanager
def _pass_input_on(model: nn.Module, block: Block) -> Iterator[None]:
    first, last = model.get_submodule(block.name), model.get_submodule(block.end)
    seen = {"in": 0, "out": 0}
    inputs: list[Any] = []

    def keep(module: nn.Module, args: object, kwargs: object) -> None:
        if seen["in"] == block.call:
            inputs.append(main_tensor(args) if args else main_tensor(kwargs))
        seen["in"] += 1

    def replace(module: nn.Module, args: object, output: Any) -> Any:
        mine = seen["out"] == block.call
        seen["out"] += 1
        if not mine or not inputs:
            return None
        return replace_main_tensor(output, inputs.pop())

    with Hooks() as hooks:
        hooks.before_forward(first, keep, with_kwargs=True)
        hooks.after_forward(last, replace)
        yield
