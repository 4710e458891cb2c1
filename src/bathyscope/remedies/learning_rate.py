"""A lower learning rate, for all parameters or for some."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from bathyscope.core import UsageError
from bathyscope.remedies.change import Change


def learning_rate_(
    optimizer: torch.optim.Optimizer,
    *,
    factor: float,
    parameters: Iterable[nn.Parameter] | None = None,
) -> Change:
    """Multiply the learning rate of the groups that hold the given parameters, or of all groups.

    Raises:
        UsageError: the factor is not positive, or no group holds any of the parameters.
    """
    if not factor > 0:
        raise UsageError(f"The factor of a learning rate must be positive, but {factor} was given.")
    wanted = None if parameters is None else {id(p) for p in parameters}
    groups = [
        group
        for group in optimizer.param_groups
        if wanted is None or any(id(p) in wanted for p in group["params"])
    ]
    if not groups:
        raise UsageError(
            "None of the parameters is in the optimizer; pass parameters that it updates."
        )
    change = Change(f"learning rate × {factor:g}")
    for group in groups:
        change.undone_by(_restoring(group, group["lr"]))
        group["lr"] = group["lr"] * factor
    return change


def _restoring(group: dict[str, Any], rate: Any) -> Any:
    def restore() -> None:
        group["lr"] = rate

    return restore
