"""Shortcuts around whole blocks, without parameters also where the shape changes."""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from bathyscope.core import Block, UsageError
from bathyscope.core.calls import unwrap
from bathyscope.core.nested import main_tensor, replace_main_tensor
from bathyscope.remedies.change import Change
from bathyscope.remedies.remedy import Edit, StructureRemedy, python_list, python_string, submodule

Span = tuple[str, str]
"""The module whose input is carried and the one to whose output it is added."""


def fit_to(x: Tensor, like: Tensor) -> Tensor:
    """x pooled to the size of another tensor, its channels repeated or cut to as many.

    Channels are the last axis of a sequence whose length stays, else the second.
    """
    if x.shape == like.shape:
        return x
    axis = 2 if x.ndim == 3 and x.shape[1] == like.shape[1] else 1
    if axis == 1 and x.shape[2:] != like.shape[2:]:
        pool = getattr(F, f"adaptive_avg_pool{x.ndim - 2}d")  # over the axes behind the channels
        x = pool(x, like.shape[2:])
    repeats = -(-like.shape[axis] // x.shape[axis])
    return torch.cat([x] * repeats, axis).narrow(axis, 0, like.shape[axis])


_ADD_SHORTCUT = '''\
def add_shortcut_(model, first, last, scale):
    """Add what goes into `first` to `scale` times what comes out of `last`, in the same pass."""
    carried = []
    def take(module, args, kwargs):
        carried.append((*args, *kwargs.values())[0].clone())
    def add(module, args, output):
        if not carried:
            return output
        y = output[0] if isinstance(output, tuple) else output
        y = torch.add(fit_to(carried.pop(), y), y, alpha=scale)
        return (y, *output[1:]) if isinstance(output, tuple) else y
    model.register_forward_pre_hook(lambda module, args: carried.clear())
    first.register_forward_pre_hook(take, with_kwargs=True)
    last.register_forward_hook(add)
'''


class AddShortcuts(StructureRemedy):
    """x_{l+1} = x_l + scale · block_l(x_l) around every span, the block's last activation included.

    Where the block changes the shape, x is pooled to the output's size and its channels are repeated
    or cut to the output's number. The shortcut is a pair of hooks: parameter names and the optimizer
    stay valid, and a copy of the model has it too. A state dict does not hold it.
    """

    name: Literal["add-shortcuts"] = "add-shortcuts"
    spans: Annotated[tuple[Span, ...], Field(min_length=1)]
    scale: float = 1.0
    helpers: ClassVar = (fit_to, _ADD_SHORTCUT)

    @property
    def description(self) -> str:
        """For instance `shortcuts around 12 blocks, branches × 0.289`."""
        return f"shortcuts around {len(self.spans)} blocks, branches × {self.scale:.3g}"

    @property
    def num_added(self) -> int:
        """One addition a span."""
        return len(self.spans)

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Hook the modules."""
        ends = [(submodule(model, first), submodule(model, last)) for first, last in self.spans]
        change = Change(self.description, tuple(first for first, _ in self.spans))
        paths = [_Carried() for _ in ends]
        hooks = change.add_hooks()
        # what a pass has left behind, as one that leaves layers out may, is not for the next
        hooks.before_forward(unwrap(model), _Clear(paths))
        for (first, last), carried in zip(ends, paths, strict=True):
            take = _Take(carried, keeps_input=isinstance(first, KEEPS_INPUT))
            hooks.before_forward(first, take, with_kwargs=True)
            hooks.after_forward(last, _Add(carried, self.scale))
        return change

    def code(self) -> str:
        """The pairs and a loop over them."""
        if all(first == last for first, last in self.spans):
            names = python_list(tuple(first for first, _ in self.spans))
            loop, ends = f"for name in {names}:\n", ("name", "name")
        else:
            pairs = ((python_string(first), python_string(last)) for first, last in self.spans)
            rows = "".join(f"    ({first}, {last}),\n" for first, last in pairs)
            loop, ends = f"for first, last in [\n{rows}]:\n", ("first", "last")
        first, last = (f"model.get_submodule({end})" for end in ends)
        note = f"# in a forward of your own: x = x + {self.scale:.4g} * block(x)\n"
        return f"{note}{loop}    add_shortcut_(model, {first}, {last}, {self.scale!r})\n"

    def edits(self, model: nn.Module) -> dict[str, Edit]:
        """x + scale · forward(x) of each block that is one module; other spans have none of their own."""
        alone = [first for first, last in self.spans if first == last]
        return dict.fromkeys(alone, Edit("Residual", scale=self.scale))


def shortcut_(model: nn.Module, blocks: Iterable[Block], *, scale: float = 1.0) -> Change:
    """Make x_{l+1} = x_l + scale · block_l(x_l) of every given block, in place, without new parameters.

    Args:
        model: changed in place.
        blocks: from `blocks_of`; those called more than once get it at each call. Where one changes
            the shape, its input is pooled, and its channels are repeated or cut.
        scale: of what the block adds; 1/√depth keeps the variance bounded over any depth.

    Returns:
        The change; `undo()` takes the shortcuts away.

    Raises:
        UsageError: no block is given, or a block's output has another number of axes than its input.

    Examples:
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
    chosen = list(blocks)
    for block in chosen:
        if not can_be_spanned(block):
            raise UsageError(
                f"A shortcut around block {block.label!r} needs an output with as many axes as its "
                f"input, but it maps {block.in_shape} to {block.out_shape}; leave it out."
            )
    if not chosen:
        raise UsageError("No block was given to put a shortcut around; give at least one.")
    spans = tuple(dict.fromkeys((b.name, b.end) for b in chosen))
    return AddShortcuts(spans=spans, scale=scale).apply_(unwrap(model))


def can_be_spanned(block: Block) -> bool:
    """Whether a shortcut without parameters can lead around a block."""
    return len(block.in_shape) == len(block.out_shape) and 2 <= len(block.in_shape) <= 5


KEEPS_INPUT = (nn.Linear, nn.modules.conv._ConvNd)
"""Layers that need their input again in the backward pass: nothing can overwrite it. A block may."""


class _Carried:
    """The input on its way around the block. Copies of the model share none: it is copied with them."""

    def __init__(self) -> None:
        self.stack: list[Tensor] = []

    def __deepcopy__(self, memo: dict[int, object]) -> "_Carried":
        memo[id(self)] = copy = _Carried()
        return copy


class _Clear:
    def __init__(self, paths: list[_Carried]) -> None:
        self.paths = paths

    def __call__(self, module: nn.Module, args: object) -> None:
        for carried in self.paths:
            carried.stack.clear()


class _Take:
    def __init__(self, carried: _Carried, *, keeps_input: bool) -> None:
        self.carried = carried
        self.keeps_input = keeps_input

    def __call__(
        self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        x = main_tensor(args) if args else main_tensor(kwargs)
        if x is not None:
            self.carried.stack.append(x if self.keeps_input else x.clone())


class _Add:
    def __init__(self, carried: _Carried, scale: float) -> None:
        self.carried = carried
        self.scale = scale

    def __call__(self, module: nn.Module, args: object, output: object) -> object:
        if not self.carried.stack:
            return None
        x = self.carried.stack.pop()
        y = main_tensor(output)
        if y is None:
            return None
        return replace_main_tensor(output, torch.add(fit_to(x, y), y, alpha=self.scale))
