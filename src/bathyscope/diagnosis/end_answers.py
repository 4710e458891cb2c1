"""What the findings about data, labels, output and loss ask for: steps at the two ends of a network."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.batch import Batch
from bathyscope.core.nested import tensors_in
from bathyscope.core.records import Finding
from bathyscope.remedies import (
    AddActivations,
    DropActivation,
    ReplaceActivation,
    ScaleOutputs,
    StandardiseInputs,
)
from bathyscope.remedies.recipe import AnyRemedy

_DROPPED = frozenset({"output-misfit", "clipped-output", "unreachable-targets"})
_ENDS = (nn.Softmax, nn.Softmax2d, nn.Sigmoid, nn.ReLU, nn.Tanh, nn.Softplus, nn.Hardtanh)


def end_answers(
    model: nn.Module, batch: Batch, findings: Sequence[Finding]
) -> tuple[AnyRemedy, ...]:
    """The steps that findings ask for where the network meets its data and its loss; they belong together."""
    codes = {finding.code for finding in findings}
    return (
        *_input(batch, codes),
        *_between(model, codes),
        *_output(model, codes),
        *_targets(batch, codes),
    )


def _output(model: nn.Module, codes: set[str]) -> Iterator[AnyRemedy]:
    """The activation at the end dropped, or the one that the loss wants in its place."""
    leaves = [
        (name, module) for name, module in model.named_modules() if not list(module.children())
    ]
    name, module = leaves[-1]
    if not name or not isinstance(module, _ENDS):
        return
    if "one-unit-softmax" in codes or "softmax-for-several-labels" in codes:
        yield ReplaceActivation(layer=name, kind="sigmoid")
    elif "sigmoid-for-one-class" in codes:
        yield ReplaceActivation(layer=name, kind="softmax")
    elif codes & _DROPPED:
        yield DropActivation(layer=name)


def _between(model: nn.Module, codes: set[str]) -> Iterator[AnyRemedy]:
    """A ReLU behind every linear map but the last, where nothing is between them."""
    if "linear-network" not in codes:
        return
    maps = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    layers = [name for name, module in model.named_modules() if isinstance(module, maps)]
    if len(layers) > 1:
        yield AddActivations(layers=tuple(layers[:-1]))


def _input(batch: Batch, codes: set[str]) -> Iterator[AnyRemedy]:
    """Inputs standardised by column or channel."""
    x = next(tensors_in(batch[0]), None)
    if "unscaled-input" not in codes or x is None or not x.is_floating_point() or x.ndim < 2:
        return
    mean, deviation = _moments(x.detach().double().movedim(1, -1).flatten(0, -2))
    yield StandardiseInputs(shift=tuple(mean.tolist()), scale=tuple(deviation.tolist()))


def _targets(batch: Batch, codes: set[str]) -> Iterator[AnyRemedy]:
    """Outputs in units of the targets, by column."""
    y = next(tensors_in(batch[1]), None)
    asks = codes & {"unscaled-targets", "unreachable-targets"}
    if not asks or y is None or not y.is_floating_point() or y.ndim < 2:
        return
    mean, deviation = _moments(y.detach().double().flatten(0, -2))
    yield ScaleOutputs(shift=tuple(mean.tolist()), scale=tuple(deviation.tolist()))


def _moments(columns: Float[Tensor, " n d"]) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    """Mean and deviation of each column; one for the deviation of a column that hardly varies."""
    deviation = columns.std(0)
    varies = deviation > 1e-8 * deviation.max()
    return columns.mean(0), torch.where(varies, deviation, torch.ones_like(deviation))
