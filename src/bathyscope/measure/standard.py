"""The cheap measurements together, from one forward and one backward pass."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.one_pass import probe
from bathyscope.core.records import Measurement
from bathyscope.measure.activations import ActivationTap
from bathyscope.measure.attention import AttentionTap
from bathyscope.measure.blocks import find_blocks
from bathyscope.measure.gradients import GradientTap
from bathyscope.measure.inputs import inputs_measurement
from bathyscope.measure.labels import labels_measurement
from bathyscope.measure.layers import input_sizes
from bathyscope.measure.mode import ModeTap
from bathyscope.measure.normalisation import norm_inputs
from bathyscope.measure.output_and_loss import OutputAndLoss
from bathyscope.measure.parameter_gradients import parameter_gradient_measurement
from bathyscope.measure.parameters import parameters_measurement
from bathyscope.measure.representations import LARGEST_SIDE, RepresentationTap
from bathyscope.measure.trial_step import step_measurement
from bathyscope.measure.updates import (
    check_optimizer,
    needs_closure,
    next_steps,
    update_measurement,
)
from bathyscope.measure.weights import weight_measurement


def standard(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    optimizer: torch.optim.Optimizer | None = None,
    blocks: Iterable[str] | Blocks | None = None,
    cutoff: float | None = None,
    largest_side: int = LARGEST_SIDE,
) -> dict[str, Measurement]:
    """Activations, representations, gradients, weights and updates of every block, and what is around.

    Attention is measured too, where there is any. One pass serves them all. Tensors are reduced as
    they appear, so that no more of them is held than the backward pass holds anyway.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        optimizer: the one meant for training; without it there are no `updates`.
        blocks: names or globs, or blocks found before; by default they are found.
        cutoff: relative to σ_max, for every condition number and rank; by default what rounding
            in the tensor's dtype can make.
        largest_side: Gram matrices wider than this are not decomposed, and a note says so.

    Returns:
        The measurements by name, each as its own function would give it.

    Raises:
        UsageError: the batch, the loss, the optimizer or the model does not fit the others.

    Examples:
        >>> import torch.nn.functional as F
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> batch = torch.randn(16, 4), torch.randint(3, (16,))
        >>> list(standard(model, batch, loss=F.cross_entropy))[:6]
        ['activations', 'representations', 'gradients', 'parameter_gradients', 'normalisation', 'weights']
        >>> list(standard(model, batch, loss=F.cross_entropy))[6:]
        ['inputs', 'labels', 'output', 'parameters', 'mode']
    """
    # long: one step after the other, each used once
    if optimizer is not None:
        check_optimizer(optimizer)
    found = find_blocks(model, batch, blocks)
    mode = ModeTap()
    end = OutputAndLoss(loss, batch[1])
    activation = ActivationTap(model, found, mode=mode)
    representation = RepresentationTap(model, found, cutoff=cutoff, largest_side=largest_side)
    gradient = GradientTap(model, found, cutoff=cutoff, largest_side=largest_side)
    attention = AttentionTap(model, found)
    taps = (attention, activation, representation, gradient)
    watching = (activation.watching, attention.watching())
    with norm_inputs(model) as norms, input_sizes(model) as sizes:
        result = probe(
            model, batch, loss=loss, blocks=found, taps=taps, watching=watching, at_end=end
        )
    measurements = [
        activation.measurement(),
        representation.measurement(),
        gradient.measurement(result),
        parameter_gradient_measurement(model, found, result.gradients),
        norms.measurement(model, found),
        weight_measurement(model, found, sizes, cutoff=cutoff, largest_side=largest_side),
        inputs_measurement(batch[0]),
        labels_measurement(*batch),
        end.measurement(),
        parameters_measurement(model, result.gradients, optimizer),
        mode.measurement(model),
    ]
    attention.look_at(batch)
    if (of_attention := attention.measurement()) is not None:
        measurements.append(of_attention)
    if optimizer is not None and needs_closure(optimizer):
        note = (
            f"The optimizer ({type(optimizer).__name__}) steps only with a closure that computes the "
            "loss again and again: the size of its steps was not measured."
        )
        measurements[-1] = replace(measurements[-1], notes=(*measurements[-1].notes, note))
    elif optimizer is not None:
        changes = next_steps(model, result.gradients, optimizer)
        measurements += [
            update_measurement(
                model,
                found,
                result.gradients,
                optimizer,
                largest_side=largest_side,
                steps=changes,
            ),
            step_measurement(model, batch, changes, loss=loss, optimizer=optimizer),
        ]
    return {measurement.name: measurement for measurement in measurements}
