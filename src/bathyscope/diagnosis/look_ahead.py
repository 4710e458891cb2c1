"""What a few steps of training do: the same measurements on a copy, and the order of events."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from bathyscope import measure
from bathyscope.core.batch import Batch, LossFn, copy_tensors, loss_value, run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import UsageError
from bathyscope.core.preserve import preserve_model
from bathyscope.core.records import Finding

if TYPE_CHECKING:
    from bathyscope.diagnosis.diagnosis import Diagnosis

LEARNING_RATE = 0.1
"""Of the look-ahead without an optimizer: SGD with momentum 0.9, as the papers train."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A finding and the step after which it was first seen; step 0 is the model as it was given."""

    step: int
    finding: Finding


def looked_ahead(
    diagnosis: "Diagnosis",
    model: nn.Module,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    steps: int = 8,
) -> "Diagnosis":
    """The diagnosis with the same measurements after one and after `steps` steps on a copy.

    Args:
        diagnosis: of the model as it stands.
        model: left as it was; a copy takes the steps, on the diagnosis's own batch.
        optimizer: whose kind, state and settings the copy's has; SGD at 0.1 by default.
        steps: how many.

    Returns:
        The diagnosis with `stages`, and with the findings of the stages that the start did not show.
    """
    from bathyscope.diagnosis.evidence import evidence_of
    from bathyscope.diagnosis.rules import findings_of
    from bathyscope.diagnosis.thresholds import Thresholds

    batch, loss = diagnosis.setting.batch, diagnosis.setting.loss
    options = diagnosis.setting.options
    with preserve_model(model, copy_parameters=False):
        twin, stepper = twins(model, optimizer)
        stages = [("at the start", diagnosis)]
        for step in range(1, steps + 1):
            train_step(twin, stepper, batch, loss)
            if step in (1, steps):
                measured = measure.standard(
                    twin, batch, loss=loss, optimizer=stepper, blocks=diagnosis.blocks
                )
                evidence = evidence_of(diagnosis.blocks, measured, batch)
                found = findings_of(
                    evidence,
                    Thresholds.of(options.get("thresholds")),
                    silenced=frozenset(options.get("silence", ())),
                )
                label = f"after {step} step{'s' if step > 1 else ''}"
                later = replace(diagnosis, measurements=measured, findings=found, stages=())
                stages.append((label, later))
    return replace(diagnosis, stages=tuple(stages))


def events_of(diagnosis: "Diagnosis") -> tuple[Event, ...]:
    """Which came first: every kind of finding with the first stage that shows it, in that order."""
    seen: dict[str, Event] = {}
    for label, stage in diagnosis.stages or (("at the start", diagnosis),):
        step = next((int(word) for word in label.split() if word.isdigit()), 0)
        for finding in stage.findings:
            seen.setdefault(finding.code, Event(step=step, finding=finding))
    return tuple(sorted(seen.values(), key=lambda event: event.step))


def twins(
    model: nn.Module, optimizer: torch.optim.Optimizer | None, *, lr: float = LEARNING_RATE
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A copy of a model and of its optimizer, connected with one another as the originals are.

    Raises:
        UsageError: the model or the optimizer cannot be copied.
    """
    original = unwrap(model)
    try:
        if optimizer is None:
            twin = copy.deepcopy(original)
            trained = [p for p in twin.parameters() if p.requires_grad]
            return twin, torch.optim.SGD(trained, lr=lr, momentum=0.9)
        twin, stepper = copy.deepcopy((original, optimizer))
    except (RuntimeError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{type(original).__name__} cannot be copied for a look-ahead: {error}; "
            "use the standard probes."
        ) from error
    return twin, stepper


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, loss: LossFn
) -> float:
    """One step of training on a batch; the loss before it."""
    inputs, targets = batch
    optimizer.zero_grad(set_to_none=True)
    value = loss_value(loss, run_forward(model, copy_tensors(inputs)), targets)
    value.backward()
    optimizer.step()
    return float(value.detach())


def losses_of(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    *,
    loss: LossFn,
) -> list[float]:
    """The loss before each step of training, one step a batch; it ends where the loss is not finite."""
    losses: list[float] = []
    for batch in batches:
        losses.append(train_step(model, optimizer, batch, loss))
        if not math.isfinite(losses[-1]):
            break
    return losses
