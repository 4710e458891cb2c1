"""Where a run stopped being finite."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from bathyscope.core import Blocks, blocks_of, preserve_model
from bathyscope.core.errors import UsageError
from bathyscope.core.one_pass import listen
from bathyscope.core.records import Block

Quantity = Literal["weights", "output", "gradient", "loss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first quantity of a step that was NaN or infinite.

    Attributes:
        step: the optimizer step, counted from 1, that could not be taken.
        block: the block it was found in, or None where no block is at fault (the loss itself).
        quantity: `weights` (before the step), `output` (forward pass), `gradient` (backward pass,
            so the first block met on the way back) or `loss`.
    """

    step: int
    block: str | None
    quantity: Quantity

    def __str__(self) -> str:
        where = f"in block {self.block}" if self.block else "in the loss"
        return f"diverged at step {self.step} {where}"

    def result(self, *, epoch: int, loss: float, gradient_norm: float) -> dict[str, object]:
        """The last numbers of a run that ended so."""
        return {
            "step": self.step,
            "epoch": epoch,
            "last_loss": loss,
            "last_gradient_norm": gradient_norm,
            "diverged_block": self.block,
            "diverged_quantity": self.quantity,
        }


def first_not_finite(
    model: nn.Module,
    batch: tuple[Tensor, Tensor],
    *,
    loss: Callable[[Tensor, Tensor], Tensor],
    call: Callable[[Tensor], Tensor],
    step: int,
) -> Divergence:
    """Run one batch again with hooks on the blocks and find the first number that is not finite.

    In the order of computation: the weights; the output of each block, first to last; the loss; the
    gradient at each block's output and in its parameters, last to first. The model is left as it was.

    Args:
        model: in the state in which the step failed.
        batch: the batch of that step.
        loss: of output and targets.
        call: how the loop calls the model (autocast, memory format); hooks must still fire.
        step: the number of the step, for the record.
    """
    inputs, targets = batch
    with preserve_model(model, copy_parameters=False):
        try:
            blocks = blocks_of(model, inputs)
        except UsageError:  # a model that can no longer run names no blocks
            blocks = Blocks((), "leaves")
        for block in blocks:
            if not _finite(_parameters(model, block)):
                return Divergence(step=step, block=block.label, quantity="weights")
        tap = _FiniteTap()
        with listen(model, blocks, (tap,)) as ears:
            value = loss(call(inputs), targets)
            ears.end_of_forward()
            if tap.bad_output:
                return Divergence(step=step, block=tap.bad_output, quantity="output")
            if not _finite([value]):
                return Divergence(step=step, block=None, quantity="loss")
            value.backward()
        for block in reversed(blocks):
            gradients = [p.grad for p in _parameters(model, block) if p.grad is not None]
            if block.label in tap.bad_gradients or not _finite(gradients):
                return Divergence(step=step, block=block.label, quantity="gradient")
    # Dropout drew other units, or the fault lies outside every block.
    return Divergence(step=step, block=None, quantity="loss")


@dataclass
class _FiniteTap:
    """The first block whose output is not finite, and all whose gradients are not."""

    bad_output: str | None = None
    bad_gradients: set[str] = field(default_factory=set)

    def on_input(self, block: Block, x: Tensor) -> None:
        pass

    def on_output(self, block: Block, x: Tensor) -> None:
        if self.bad_output is None and not _finite([x]):
            self.bad_output = block.label

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        if not _finite([gradient]):
            self.bad_gradients.add(block.label)

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        self.on_input_gradient(block, gradient)


def _parameters(model: nn.Module, block: Block) -> list[nn.Parameter]:
    names = dict.fromkeys((block.name, block.end))
    return [p for name in names for p in model.get_submodule(name).parameters()]


def _finite(tensors: Sequence[Tensor]) -> bool:
    return all(bool(torch.isfinite(t).all()) for t in tensors)
