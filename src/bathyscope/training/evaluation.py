"""Loss and accuracy on a set, in eval mode."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bathyscope.core.batch import LossFn
from bathyscope.training.batches import Data, read_batches
from bathyscope.training.distributed import Group
from bathyscope.training.losses import num_correct


def evaluate(
    model: nn.Module,
    examples: Data,
    *,
    loss: LossFn,
    forward: Callable[[Tensor], Tensor] | None = None,
    batch_size: int = 256,
    group: Group | None = None,
) -> dict[str, float]:
    """Mean loss over the samples of a set, and accuracy where its targets are labels.

    Args:
        model: put into eval mode for the while.
        examples: inputs and targets.
        loss: a mean over samples; batches are weighted by their size.
        forward: how the model is called (autocast, compiled); the model itself for None.
        batch_size: samples at a time; it changes nothing but memory.
        group: the processes that share the work.

    Returns:
        `loss` and, for labels, `accuracy`.

    Data:
        >>> model = nn.Linear(2, 2)
        >>> set(evaluate(model, (torch.zeros(3, 2), torch.tensor([0, 1, 0])),
        ...              loss=nn.functional.cross_entropy)) == {"loss", "accuracy"}
        True
    """
    inputs, _ = examples
    group = group or Group()
    call = forward or model
    was_training = model.training
    model.eval()
    sums = torch.zeros(3, dtype=torch.float64, device=inputs.device)
    labelled = True
    with torch.no_grad():
        everything = torch.arange(len(inputs), device=inputs.device).split(batch_size)
        for x, y in read_batches(examples, everything[group.rank :: group.size]):
            output = call(x)
            correct = num_correct(output, y)
            labelled = labelled and correct is not None
            sums[0] += loss(output, y).item() * len(x)
            sums[1] += 0 if correct is None else correct.item()
            sums[2] += len(x)
    model.train(was_training)
    group.sum_(sums)
    total, right, count = sums.tolist()
    return {"loss": total / count} | ({"accuracy": right / count} if labelled else {})
