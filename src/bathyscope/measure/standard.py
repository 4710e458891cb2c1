"""The cheap measurements together, from one forward and one backward pass."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import members_of, unwrap
from bathyscope.core.devices import on_a_copy_without_double
from bathyscope.core.fetch import OnHost, Readings, keep_on_host
from bathyscope.core.probe import Observer, probe
from bathyscope.core.records import Measurement
from bathyscope.core.stepping import check_optimizer, needs_closure
from bathyscope.core.walks import named_parameters
from bathyscope.measure.activations import ActivationObserver
from bathyscope.measure.around import (
    LARGEST_SIDE_AROUND,
    AroundObserver,
    ByPart,
    around_measurement,
    on_body,
)
from bathyscope.measure.attention import AttentionObserver
from bathyscope.measure.dependence.measurement import LossReader, dependence_measurements
from bathyscope.measure.functions import FunctionWatch, ModeObserver, Together, is_chain_of_layers
from bathyscope.measure.gradients import GradientObserver
from bathyscope.measure.inputs_and_labels import inputs_measurement, labels_measurement
from bathyscope.measure.layers import input_sizes, norm_inputs
from bathyscope.measure.next_step import next_steps, step_measurement
from bathyscope.measure.output_and_loss import OutputAndLoss
from bathyscope.measure.parameters import parameter_gradient_measurement, parameters_measurement
from bathyscope.measure.representations import LARGEST_SIDE, RepresentationObserver
from bathyscope.measure.rows import find_blocks
from bathyscope.measure.updates import update_measurement
from bathyscope.measure.weights import weight_measurement


@on_a_copy_without_double
def standard(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    optimizer: torch.optim.Optimizer | None = None,
    blocks: Iterable[str] | Blocks | None = None,
    tolerance: float | None = None,
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
        tolerance: relative to σ_max, for every condition number and rank; by default what rounding
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
        ['activations', 'representations', 'gradients', 'parameter_gradients', 'normalization', 'weights']
        >>> list(standard(model, batch, loss=F.cross_entropy))[6:]
        ['inputs', 'labels', 'output', 'parameters', 'mode', 'dependence', 'effective_targets']
    """
    # long: one step after the other, each used once
    if optimizer is not None:
        check_optimizer(optimizer)
    outcome = find_blocks(model, batch, blocks)
    mode = ModeObserver()
    on_host = OnHost()
    near = on_host.batch(*batch)
    end, reader = OutputAndLoss(model, loss, batch[1], on_host), LossReader(loss, batch, on_host)

    def at_end(output: object, value: Tensor) -> None:
        end(output, value)
        reader(output, value)

    rows = outcome.rows
    around = Blocks(outcome.around, outcome.how)
    members, readings = members_of(model), Readings()  # what all observers read, they read together
    activation = ActivationObserver(members, rows, mode=mode, readings=readings)
    representation = RepresentationObserver(
        members, outcome, tolerance=tolerance, largest_side=largest_side
    )
    gradient = GradientObserver(
        members, outcome, tolerance=tolerance, largest_side=largest_side, readings=readings
    )
    attention = None
    of_body: tuple[Observer, ...] = (representation, gradient)
    watches: tuple[FunctionWatch, ...] = (activation.watching,)
    if not is_chain_of_layers(members.root):
        attention = AttentionObserver(members, outcome, readings=readings)
        of_body, watches = (attention, *of_body), (*watches, *attention.watches)
    beside = AroundObserver(members, around, readings=readings) if outcome.around else None
    observers = ((*of_body,) if beside is None else (ByPart(of_body, beside),)) + (activation,)
    with (
        norm_inputs(model) as norms,
        input_sizes(model) as sizes,
        nullcontext() if attention is None else attention.hooked(),
    ):
        result = probe(
            model, batch, loss=loss, blocks=rows, observers=observers, modes=(Together(*watches),),
            at_end=at_end,
        )  # fmt: skip
    keep_on_host(
        named_parameters(unwrap(model)).values()
    )  # those of the blocks and around them are read apart
    activity, of_norms = activation.measurement(), norms.measurement(model, rows)
    measurements = [
        on_body(activity) if beside else activity,
        representation.measurement(),
        gradient.measurement(result),
        parameter_gradient_measurement(model, outcome, result.gradients),
        on_body(of_norms) if beside else of_norms,
        weight_measurement(model, outcome, sizes, tolerance=tolerance, largest_side=largest_side),
        inputs_measurement(near[0]),
        labels_measurement(*near),
        end.measurement(),
        parameters_measurement(model, result.gradients, optimizer, inputs=batch[0]),
        mode.measurement(model),
    ]
    named = named_parameters(unwrap(model)).items()
    unreached = [n for n, p in named if p.requires_grad and n not in result.gradients]
    measurements += dependence_measurements(
        model, batch, loss=loss, optimizer=optimizer, reader=reader, unreached=unreached
    )
    if attention is not None:
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
        keep_on_host(changes.values())
        measurements += [
            update_measurement(
                model,
                outcome,
                result.gradients,
                optimizer,
                largest_side=largest_side,
                steps=changes,
            ),
            step_measurement(model, batch, changes, loss=loss, optimizer=optimizer),
        ]
    if beside is not None:
        parts = [activity, of_norms, *beside.measurements()]
        parts += _weights_around(model, around, result.gradients, sizes, optimizer, changes)
        measurements.append(around_measurement(outcome.around, parts))
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

    Their gradients are not reported as fractions of the largest: that is the largest of the body.
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
