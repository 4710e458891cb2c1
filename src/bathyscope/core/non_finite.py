"""Where a pass first holds a value that is non-finite (NaN or Inf)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from bathyscope.core.blocks import Blocks
from bathyscope.core.global_state import RngState, measuring
from bathyscope.core.hooks import run_eagerly
from bathyscope.core.nested import tensors_in
from bathyscope.core.probe import Observer, observe
from bathyscope.core.records import Block


def is_finite(*tensors: Tensor) -> bool:
    """Whether no entry is NaN or Inf.

    Examples:
        >>> is_finite(torch.tensor([1, 2])), is_finite(torch.tensor([1.0, torch.nan]))
        (True, False)
    """
    return all(not _has_infinities(t) or bool(torch.isfinite(t).all()) for t in tensors)


def _has_infinities(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


class NonFiniteObserver(Observer):
    """Remembers the first block with a non-finite output, and all with a non-finite gradient.

    Attributes:
        output: label of that block; None as long as there is none.
        gradients: labels of the blocks with such a gradient at their input or output.
    """

    def __init__(self) -> None:
        self.output: str | None = None
        self.gradients: set[str] = set()

    def on_output(self, block: Block, x: Tensor) -> None:
        """Look at the output; the input came out of the block before."""
        if self.output is None and not is_finite(x):
            self.output = block.label

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """Look at the gradient."""
        if not is_finite(gradient):
            self.gradients.add(block.label)

    on_output_gradient = on_input_gradient


def first_non_finite(
    model: nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    *,
    blocks: Blocks,
    observers: tuple[Observer, ...] = (),
) -> str:
    """The first place of a forward pass that is non-finite: `input`, a block's label, or `loss`.

    The pass runs in the mode the model stands in, without a graph. It writes to copies of the
    buffers: the graph of a pass of the user's own may still need them as they are.
    """
    if not is_finite(*tensors_in((args, dict(kwargs)))):
        return "input"
    finder = NonFiniteObserver()
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    rng = RngState.now()
    with (
        measuring(),
        run_eagerly(model.modules()),
        observe(model, blocks, (finder, *observers)),
        torch.no_grad(),
    ):
        output = torch.func.functional_call(model, buffers, args, dict(kwargs))
    rng.restore()
    if finder.output is not None:
        return finder.output
    return "loss" if is_finite(*tensors_in(output)) else blocks[-1].label
