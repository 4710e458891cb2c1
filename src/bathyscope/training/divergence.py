"""Where a run stopped being finite."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from bathyscope.core import Blocks, blocks_of, preserve_model
from bathyscope.core.errors import UsageError
from bathyscope.core.non_finite import NonFiniteObserver, is_finite
from bathyscope.core.probe import observe
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


def first_non_finite(
    model: nn.Module,
    batch: tuple[Tensor, Tensor],
    *,
    loss: Callable[[Tensor, Tensor], Tensor],
    call: Callable[[Tensor], Tensor],
    step: int,
) -> Divergence:
    """Run one batch again with hooks on the blocks and find the first number that is non-finite.

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
            if not is_finite(*_parameters(model, block)):
                return Divergence(step=step, block=block.label, quantity="weights")
        observer = NonFiniteObserver()
        with observe(model, blocks, (observer,)) as hooks:
            value = loss(call(inputs), targets)
            hooks.end_of_forward()
            if observer.output:
                return Divergence(step=step, block=observer.output, quantity="output")
            if not is_finite(value):
                return Divergence(step=step, block=None, quantity="loss")
            value.backward()
        for block in reversed(blocks):
            gradients = [p.grad for p in _parameters(model, block) if p.grad is not None]
            if block.label in observer.gradients or not is_finite(*gradients):
                return Divergence(step=step, block=block.label, quantity="gradient")
    # Dropout drew other units, or the fault lies outside every block.
    return Divergence(step=step, block=None, quantity="loss")


def _parameters(model: nn.Module, block: Block) -> list[nn.Parameter]:
    names = dict.fromkeys((block.name, block.end))
    return [p for name in names for p in model.get_submodule(name).parameters()]
