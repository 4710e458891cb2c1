"""What a block is worth: the change of the loss when its residual branch is dropped."""

from collections.abc import Iterable

import torch
from torch import nn

from bathyscope.core.batch import Batch, LossFn, check_batch, loss_value, run_forward
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import unwrap
from bathyscope.core.drop import drop_branch
from bathyscope.core.nested import copy_tensors
from bathyscope.core.preserve import preserve_buffers, preserve_model
from bathyscope.core.progress import report_progress
from bathyscope.core.records import Measurement
from bathyscope.measure.rows import Rows, find_blocks


def deletion(
    model: nn.Module, batch: Batch, *, loss: LossFn, blocks: Iterable[str] | Blocks | None = None
) -> Measurement:
    """The loss with each block's residual branch dropped, one block at a time.

    A dropped block passes on its shortcut alone, or its input where it names no branch
    (singularity, section VII: layer deletion). Every pass draws the same random numbers, so that
    dropout does not blur the difference; the model runs in the mode it stands in.

    Columns, one value per block:
        loss: with the block dropped; None where it cannot be dropped.
        loss_change: that loss less the loss of the whole model, which stands in `settings`.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        blocks: names or globs, or blocks found before; by default they are found.

    Returns:
        The measurement `deletion`.

    Raises:
        UsageError: the batch, the loss or the model does not fit the others.

    Examples:
        >>> model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
        >>> with torch.no_grad():
        ...     _ = model[0].weight.copy_(3 * torch.eye(2)), model[1].weight.fill_(1.0)
        >>> deletion(model, (torch.ones(1, 2), None), loss=lambda y, _: y.sum())["loss_change"]
        (-4.0, None)
    """
    result = find_blocks(model, batch, blocks)
    inner = unwrap(model)
    inputs, targets = check_batch(inner, batch)
    rows = Rows(result, ("loss", "loss_change"))

    def loss_now() -> float:
        with preserve_buffers(inner), torch.enable_grad():
            return float(
                loss_value(loss, run_forward(inner, copy_tensors(inputs)), targets).detach()
            )

    with preserve_model(inner, copy_parameters=False):
        whole = loss_now()
        for number, block in enumerate(result, 1):
            report_progress("without block", number, len(result))
            if not block.droppable:
                rows.note("Blocks that change the shape and name no branch cannot be dropped.")
                continue
            with drop_branch(inner, block):
                value = loss_now()
            rows.put(block, loss=value, loss_change=value - whole)
    return rows.measurement("deletion", loss=whole)
