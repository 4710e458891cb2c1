"""Remedies where the network meets its data and its loss: steps that belong together in one recipe."""

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.nested import tensors_in
from bathyscope.core.records import Finding
from bathyscope.remedies import (
    AddActivations,
    DropActivation,
    ReplaceActivation,
    ScaleOutputs,
    StandardizeInputs,
)
from bathyscope.rules.targeted.context import Context, Steps

_ENDS = (nn.Softmax, nn.Softmax2d, nn.Sigmoid, nn.ReLU, nn.Tanh, nn.Softplus, nn.Hardtanh)
_MAPS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def standardize_inputs(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """Inputs standardized by column or channel."""
    x = next(tensors_in(context.batch[0]), None)
    if x is not None and x.is_floating_point() and x.ndim >= 2:
        mean, deviation = _moments(x.detach().double().movedim(1, -1).flatten(0, -2))
        yield (StandardizeInputs(shift=tuple(mean.tolist()), scale=tuple(deviation.tolist())),)


def add_activations(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """A ReLU behind every linear map but the last, where nothing is between them."""
    layers = [name for name, module in context.model.named_modules() if isinstance(module, _MAPS)]
    if len(layers) > 1:
        yield (AddActivations(layers=tuple(layers[:-1])),)


def end_with_sigmoid(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """A sigmoid in place of the activation at the end."""
    yield from _replace_end(context.model, "sigmoid")


def end_with_softmax(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """A softmax in place of the activation at the end."""
    yield from _replace_end(context.model, "softmax")


def drop_end_activation(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """No activation at the end."""
    if (name := _end_activation(context.model)) is not None:
        yield (DropActivation(layer=name),)


def scale_outputs(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """Outputs in units of the targets, by column."""
    y = next(tensors_in(context.batch[1]), None)
    if y is not None and y.is_floating_point() and y.ndim >= 2:
        mean, deviation = _moments(y.detach().double().flatten(0, -2))
        yield (ScaleOutputs(shift=tuple(mean.tolist()), scale=tuple(deviation.tolist())),)


def _replace_end(model: nn.Module, kind: Literal["sigmoid", "softmax"]) -> Iterator[Steps]:
    if (name := _end_activation(model)) is not None:
        yield (ReplaceActivation(layer=name, kind=kind),)


def _end_activation(model: nn.Module) -> str | None:
    """The name of the last leaf, where it is an activation."""
    leaves = [(name, m) for name, m in model.named_modules() if not list(m.children())]
    name, module = leaves[-1]
    return name if name and isinstance(module, _ENDS) else None


def _moments(columns: Float[Tensor, " n d"]) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    """Mean and deviation of each column; one for the deviation of a column that hardly varies."""
    deviation = columns.std(0)
    varies = deviation > 1e-8 * deviation.max()
    return columns.mean(0), torch.where(varies, deviation, torch.ones_like(deviation))
