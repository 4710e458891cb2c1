"""The blocks to measure, after the checks of the batch that need no pass."""

from collections.abc import Iterable

from torch import nn

from bathyscope.core.batch import Batch, check_batch, check_parameters
from bathyscope.core.blocks import Blocks, blocks_of


def find_blocks(model: nn.Module, batch: Batch, blocks: Iterable[str] | Blocks | None) -> Blocks:
    """The blocks of the model as the inputs of the batch run through it.

    Raises:
        UsageError: the model has no parameters, or the batch cannot be used.
    """
    check_parameters(model)
    inputs, _ = check_batch(model, batch)
    return blocks_of(model, inputs, blocks=blocks)
