"""Passes of the recorder's own: to find the blocks, and the place where a value was first not finite."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.errors import UsageError
from bathyscope.core.nested import first_samples, tensors_in
from bathyscope.core.one_pass import Tap, listen
from bathyscope.core.preserve import RngState, measuring
from bathyscope.core.records import Block


def find_blocks(
    model: nn.Module,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *,
    wanted: tuple[str, ...] | Blocks | None,
) -> Blocks:
    """The blocks, found on two samples: a pass over the whole batch would cost what a step costs."""
    inputs = kwargs if kwargs and not args else args
    try:
        return blocks_of(model, first_samples(inputs, 2), blocks=wanted)
    except UsageError:  # the model takes one size of batch only
        return blocks_of(model, inputs, blocks=wanted)


def first_not_finite(
    model: nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    *,
    blocks: Blocks,
    taps: tuple[Tap, ...] = (),
) -> str:
    """The first place of a forward pass that is not finite: `input`, a block's label, or `loss`.

    The pass runs in the mode the model stands in, without a graph. It writes to copies of the
    buffers: the graph of the loop's own pass may still need them as they are.
    """
    if not all(_is_finite(t) for t in tensors_in((args, dict(kwargs)))):
        return "input"
    finder = _Finder()
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    rng = RngState.now()
    with measuring(), listen(model, blocks, (finder, *taps)), torch.no_grad():
        output = torch.func.functional_call(model, buffers, args, dict(kwargs))
    rng.restore()
    if finder.label is not None:
        return finder.label
    if all(_is_finite(t) for t in tensors_in(output)):
        return "loss"
    return blocks[-1].label


class _Finder:
    """Remembers the first block whose output is not finite."""

    def __init__(self) -> None:
        self.label: str | None = None

    def on_input(self, block: Block, x: Tensor) -> None:
        """Nothing: what came in was looked at when it came out of the block before."""

    def on_output(self, block: Block, x: Tensor) -> None:
        """Look at the output."""
        if self.label is None and not _is_finite(x):
            self.label = block.label

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """There is no graph."""

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        """There is no graph."""


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
