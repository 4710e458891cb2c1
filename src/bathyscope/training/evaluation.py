"""Loss and accuracy on a set, in eval mode."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bathyscope.core.arguments import check_count, check_function, check_kind
from bathyscope.core.batch import LossFn, explain_forward_errors, loss_value
from bathyscope.core.errors import UsageError
from bathyscope.training.batches import Data, check_pair, read_batches
from bathyscope.training.distributed import Group
from bathyscope.training.losses import num_correct, num_judged


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
        loss: a mean over samples; batches are weighted by their size, or by their labels other than −100.
        forward: how the model is called (autocast, compiled); the model itself for None.
        batch_size: samples at a time; it changes nothing but memory.
        group: the processes that share the work.

    Returns:
        `loss` and, for labels, `accuracy`.

    Raises:
        UsageError: an argument is of another kind, or the set is empty.

    Examples:
        >>> model = nn.Linear(2, 2)
        >>> set(evaluate(model, (torch.zeros(3, 2), torch.tensor([0, 1, 0])),
        ...              loss=nn.functional.cross_entropy)) == {"loss", "accuracy"}
        True
    """
    check_kind("model", model, nn.Module)
    check_function("loss", loss)
    examples = check_pair(examples, what="evaluated")
    inputs = examples[0]
    batch_size = check_count("batch_size", batch_size, minimum=1)
    if len(inputs) == 0:
        raise UsageError("The evaluated set is empty; give at least one sample.")
    group = group or Group()
    call = forward or model
    sums = torch.zeros(3, dtype=torch.float64, device=inputs.device)
    labeled = True
    with _eval_mode(model), torch.no_grad():
        everything = torch.arange(len(inputs), device=inputs.device).split(batch_size)
        for x, y in read_batches(examples, everything[group.rank :: group.size]):
            with explain_forward_errors(x):
                output = call(x)
            correct = num_correct(output, y) if isinstance(output, Tensor) else None
            labeled = labeled and correct is not None
            weight = num_judged(y)
            if weight == 0:
                continue
            sums[0] += loss_value(loss, output, y, differentiable=False).item() * weight
            right = 0.0 if correct is None else correct.item()
            sums[1] += right if y.ndim == 1 else right * weight / len(x)
            sums[2] += weight
    group.sum_(sums)
    total, right, count = sums.tolist()
    count = count or math.nan  # every label is −100
    return {"loss": total / count} | ({"accuracy": right / count} if labeled else {})


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Every module in eval mode; each gets its own mode back, for some may have been frozen in it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
