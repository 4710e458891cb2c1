"""An identity shortcut around blocks whose output has the shape of their input."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from bathyscope.core import Block, UsageError
from bathyscope.core.batch import main_tensor, replace_main_tensor
from bathyscope.core.calls import unwrap
from bathyscope.remedies.change import Change


def shortcut_(model: nn.Module, blocks: Iterable[Block], *, scale: float = 1.0) -> Change:
    """Make x_{l+1} = x_l + scale · block_l(x_l) of every given block, in place, without new parameters.

    The shortcut is a pair of hooks on the model: parameter names and the optimizer stay valid, and a
    copy of the model has it too. A state dict does not hold it: apply it again after loading.

    Args:
        model: changed in place.
        blocks: equal-shaped blocks from `blocks_of`; those called more than once get it at each call.
        scale: of what the block adds; 1/√depth keeps the variance bounded over any depth.

    Returns:
        The change; `undo()` takes the shortcuts away.

    Raises:
        UsageError: a block's output has another shape than its input.

    Examples:
        >>> import torch
        >>> from bathyscope.core import blocks_of
        >>> net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        >>> x = torch.randn(2, 3)
        >>> plain = net(x)
        >>> change = shortcut_(net, blocks_of(net, x)[1:])
        >>> hidden = net[1](net[0](x))
        >>> torch.allclose(net(x), plain + hidden)
        True
        >>> change.undo(); torch.equal(net(x), plain)
        True
    """
    model = unwrap(model)
    chosen = list(blocks)
    for block in chosen:
        if block.in_shape != block.out_shape:
            raise UsageError(
                f"An identity shortcut around block {block.label!r} needs an output of the shape of "
                f"its input, but it maps {block.in_shape} to {block.out_shape}; leave it out."
            )
    change = Change("identity shortcut", tuple(b.label for b in chosen), structural=True)
    for name, end in dict.fromkeys((b.name, b.end) for b in chosen):
        for handle in _connect(model.get_submodule(name), model.get_submodule(end), scale):
            change.undone_by(handle.remove)
    return change


def _connect(
    first: nn.Module, last: nn.Module, scale: float
) -> tuple[RemovableHandle, RemovableHandle]:
    carried = _Carried()
    return (
        first.register_forward_pre_hook(_Take(carried), with_kwargs=True),
        last.register_forward_hook(_Add(carried, scale)),
    )


class _Carried:
    """The input on its way around the block. Copies of the model share none: it is copied with them."""

    def __init__(self) -> None:
        self.stack: list[Tensor] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Carried":
        memo[id(self)] = copy = _Carried()
        return copy


class _Take:
    def __init__(self, carried: _Carried) -> None:
        self.carried = carried

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        x = main_tensor(args) if args else main_tensor(kwargs)
        if x is not None:
            self.carried.stack.append(x.clone())  # the block may overwrite its input in place


class _Add:
    def __init__(self, carried: _Carried, scale: float) -> None:
        self.carried = carried
        self.scale = scale

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        if not self.carried.stack:
            return None
        x = self.carried.stack.pop()
        y = main_tensor(output)
        return None if y is None else replace_main_tensor(output, x + self.scale * y)
