"""The cheap measurements together, from one forward and one backward pass."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.members import Members
from bathyscope.core.one_pass import probe
from bathyscope.core.records import Measurement
from bathyscope.measure.activations import ActivationTap
from bathyscope.measure.around import (
    LARGEST_SIDE_AROUND,
    AroundTap,
    ByPart,
    around_measurement,
    on_trunk,
)
from bathyscope.measure.attention import AttentionTap
from bathyscope.measure.blocks import find_blocks
from bathyscope.measure.functions import Together
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

    Attention is measured too, where there is any, and stem and head, where there are any, as the one
    measurement `around`. One pass serves them all. Tensors are reduced as
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
    rows = found.rows
    around = Blocks(found.around, found.how)
    members = Members(model)
    activation = ActivationTap(members, rows, mode=mode)
    representation = RepresentationTap(members, found, cutoff=cutoff, largest_side=largest_side)
    gradient = GradientTap(members, found, cutoff=cutoff, largest_side=largest_side)
    attention = AttentionTap(members, found)
    beside = AroundTap(members, around)
    taps = (ByPart((attention, representation, gradient), beside), activation)
    functions = Together(activation.watching, *attention.watches)
    watching = (attention.listening(), functions)
    with norm_inputs(model) as norms, input_sizes(model) as sizes:
        result = probe(
            model, batch, loss=loss, blocks=rows, taps=taps, watching=watching, at_end=end
        )
    activity, of_norms = activation.measurement(), norms.measurement(model, rows)
    measurements = [
        on_trunk(activity),
        representation.measurement(),
        gradient.measurement(result),
        parameter_gradient_measurement(model, found, result.gradients),
        on_trunk(of_norms),
        weight_measurement(model, found, sizes, cutoff=cutoff, largest_side=largest_side),
        inputs_measurement(batch[0]),
        labels_measurement(*batch),
        end.measurement(),
        parameters_measurement(model, result.gradients, optimizer, inputs=batch[0]),
        mode.measurement(model),
    ]
    attention.look_at(batch)
    if (of_attention := attention.measurement()) is not None:
        measurements.append(of_attention)
    changes = None
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
    if found.around:
        parts = [activity, of_norms, *beside.measurements()]
        parts += _weights_around(model, around, result.gradients, sizes, optimizer, changes)
        measurements.append(around_measurement(found.around, parts))
    return {measurement.name: measurement for measurement in measurements}


def _weights_around(
    model: nn.Module,
    around: Blocks,
    gradients: Mapping[str, Tensor],
    sizes: Mapping[str, tuple[int, ...]],
    optimizer: torch.optim.Optimizer | None,
    changes: Mapping[str, Tensor] | None,
) -> Iterator[Measurement]:
    """Weights, their gradients and their next steps at stem and head.

    Their gradients are not told as shares of the largest: that is the largest of the trunk.
    """
    of_gradients = parameter_gradient_measurement(model, around, gradients)
    kept = {column: of_gradients[column] for column in ("norm", "zero_layers")}
    yield replace(of_gradients, columns=kept)
    yield weight_measurement(model, around, sizes, largest_side=LARGEST_SIDE_AROUND)
    if optimizer is not None and changes is not None:
        yield update_measurement(
            model,
            around,
            gradients,
            optimizer,
            largest_side=LARGEST_SIDE_AROUND,
            steps=changes,
        )
