"""What a few steps of training do: the same measurements on a copy, and the order of events."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from bathyscope import measure
from bathyscope.core.preserve import preserve_model
from bathyscope.core.records import Finding
from bathyscope.foresight import copy_training, look_ahead

if TYPE_CHECKING:
    from bathyscope.diagnosis.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A finding and the step after which it was first seen; step 0 is the model as it was given."""

    step: int
    finding: Finding


def with_look_ahead(
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
        twin, stepper = copy_training(model, optimizer)
        stages = [(0, diagnosis)]
        for stage in look_ahead(twin, stepper, [batch] * steps, loss=loss, at=(1, steps)):
            measured = measure.standard(
                twin, batch, loss=loss, optimizer=stepper, blocks=diagnosis.blocks
            )
            found = findings_of(
                evidence_of(diagnosis.blocks, measured, batch),
                Thresholds.of(options.get("thresholds")),
                silenced=frozenset(options.get("silence", ())),
            )
            later = replace(diagnosis, measurements=measured, findings=found, stages=())
            stages.append((stage.step, later))
    return replace(diagnosis, stages=tuple(stages))


def events_of(diagnosis: "Diagnosis") -> tuple[Event, ...]:
    """Which came first: every kind of finding with the first stage that shows it, in that order."""
    seen: dict[str, Event] = {}
    for step, stage in diagnosis.stages or ((0, diagnosis),):
        for finding in stage.findings:
            seen.setdefault(finding.code, Event(step=step, finding=finding))
    return tuple(sorted(seen.values(), key=lambda event: event.step))
