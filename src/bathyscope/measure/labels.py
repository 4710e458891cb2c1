"""The targets of a batch: how many differ, how many are ignored, whether the inputs tell of them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from bathyscope.core.nested import tensors_in
from bathyscope.core.records import Measurement, Number
from bathyscope.measure.relation import relation_score

IGNORED = -100
"""torch's default `ignore_index`."""


def labels_measurement(inputs: object, targets: object) -> Measurement:
    """The measurement `labels`, in `settings`.

    number: of target values; ignored: share of class indices that are −100; different: how many
    values there are among the others, for targets of numbers the different rows; relation: how many
    deviations inputs and targets are more alike than shuffled ones. Targets are those of the batch,
    or `labels` among named inputs.

    Examples:
        >>> labels_measurement(torch.randn(4, 2), torch.tensor([1, 1, -100, 1])).settings["different"]
        1
    """
    if targets is None and isinstance(inputs, Mapping):
        targets = inputs.get("labels")
    numbers: dict[str, Number] = {}
    if isinstance(targets, Tensor) and targets.numel():
        numbers = _numbers(targets.detach())
        x = next(tensors_in(inputs), None)
        if x is not None and _can_be_related(x, targets):
            numbers["relation"] = relation_score(x, targets)
    return Measurement(name="labels", blocks=(), columns={}, settings=numbers)


def _can_be_related(x: Tensor, targets: Tensor) -> bool:
    """Whether both are samples of numbers, of a size that can be compared in no time."""
    if not (x.is_floating_point() and x.ndim > 1 and targets.ndim and len(x) == len(targets)):
        return False
    return targets[0].numel() <= 64 and bool(torch.isfinite(targets.double()).all())


def _numbers(targets: Tensor) -> dict[str, Number]:
    found: dict[str, Number] = {"number": targets.numel()}
    if targets.is_floating_point():
        rows = targets.reshape(len(targets), -1) if targets.ndim else targets.reshape(1, 1)
        found["different"] = 1 + int(bool((rows != rows[:1]).any()))
        found["samples"] = len(rows)
        found["not_finite"] = 1 - float(torch.isfinite(targets).float().mean())
        return found
    known = targets[targets != IGNORED] if targets.dtype != torch.bool else targets
    found["samples"] = known.numel()
    found["ignored"] = 1 - known.numel() / targets.numel()
    found["different"] = len(torch.unique(known.flatten()[:100_000]))
    return found
