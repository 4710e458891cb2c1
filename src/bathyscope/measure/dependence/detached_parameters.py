"""Trainable parameters that the output depends on and that no gradient reaches."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from bathyscope.core.batch import Batch, run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.nested import copy_tensors, predictions
from bathyscope.core.preserve import preserve_model
from bathyscope.measure.dependence.eval_pass import few_of
from bathyscope.measure.dependence.sample_mixing import tolerance_of


@dataclass(frozen=True, slots=True)
class DetachedParameters:
    """Parameters without a gradient whose values nevertheless change the output.

    Attributes:
        names: those that were changed together; empty where the output did not change.
        change: relative change of the output.
        not_checked: what was left out, and why.
    """

    names: tuple[str, ...]
    change: float
    not_checked: tuple[str, ...] = ()


def detached_parameters(
    model: nn.Module, batch: Batch, *, unreached: Iterable[str]
) -> DetachedParameters:
    """Whether parameters that a backward pass does not reach change the output, in eval mode.

    A layer that is never called has no gradient either, and changes nothing. One behind `detach`, `no_grad`,
    `.data` or a re-entrant checkpoint whose input needs no gradient works, and never learns.

    Args:
        model: any module, left as it was.
        batch: inputs and targets; few samples are run.
        unreached: names of trainable parameters without a gradient.

    Examples:
        >>> class Cut(nn.Sequential):
        ...     def forward(self, x):
        ...         return self[1](self[0](x).detach())
        >>> net = Cut(nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(2, 2))  # the third one is never called
        >>> detached_parameters(net, (torch.randn(4, 3), None), unreached=["0.weight", "2.weight"]).names
        ('0.weight',)
    """
    model = unwrap(model)
    wanted = list(unreached)
    inputs, _ = few_of(batch[0])
    names = []
    largest = 0.0
    with preserve_model(model), torch.no_grad():
        model.eval()
        try:
            before = predictions(run_forward(model, copy_tensors(inputs)))
            if before is None:
                return DetachedParameters((), 0.0, ("detached parameters: no output tensor",))
            for group in _by_layer(wanted):
                change = _change(model, inputs, group, before)
                if change > 10 * tolerance_of(before):
                    names += group
                    largest = max(largest, change)
        except BathyscopeError as error:
            return DetachedParameters((), 0.0, (f"detached parameters: {error}",))
    return DetachedParameters(tuple(names), largest)


_MOST_LAYERS = 8
"""Layers that are tried one by one; of more, the first ones."""


def _by_layer(names: list[str]) -> list[list[str]]:
    layers: dict[str, list[str]] = {}
    for name in names:
        layers.setdefault(name.rpartition(".")[0], []).append(name)
    return list(layers.values())[:_MOST_LAYERS]


def _change(model: nn.Module, inputs: object, names: list[str], before: torch.Tensor) -> float:
    generator = torch.Generator().manual_seed(0)
    originals = {}
    for name in names:
        parameter = model.get_parameter(name)
        originals[name] = parameter.detach().clone()
        noise = torch.randn(parameter.shape, generator=generator).to(parameter)
        parameter.add_(noise * (parameter.abs().mean() + 0.1))
    try:
        after = predictions(run_forward(model, copy_tensors(inputs)))
    finally:
        for name, value in originals.items():
            model.get_parameter(name).copy_(value)
    if after is None or after.shape != before.shape:
        return 0.0
    size = float(before.abs().max()) or 1.0
    return float((after - before).abs().nan_to_num(0.0).max()) / size
