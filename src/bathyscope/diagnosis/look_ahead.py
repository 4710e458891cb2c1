"""What a few steps of training do: the same measurements on a copy, and the order of events."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from bathyscope import measure
from bathyscope.core.preserve import preserve_model
from bathyscope.core.rate_plan import plan_rates
from bathyscope.core.records import Finding, Measurement
from bathyscope.core.stepping import copy_training
from bathyscope.foresight import look_ahead
from bathyscope.foresight.course import FirstStepsReader, TrainingPlan
from bathyscope.foresight.forecast import tell
from bathyscope.rules.evidence import Evidence, evidence_of
from bathyscope.rules.findings import findings_of, in_order
from bathyscope.rules.registry import all_rules
from bathyscope.rules.rule import Thresholds

if TYPE_CHECKING:
    from bathyscope.diagnosis.diagnosis import Diagnosis

LOOK_AHEAD = "look_ahead"
"""The measurement that rules on the steps of the look-ahead read."""

BUDGET = 300
"""Steps of training that the forecast takes as planned where no number is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingEvent:
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

    The same steps are read for the forecast, as `forecast` on this one batch would take them.

    Args:
        diagnosis: of the model as it stands.
        model: left as it was; a copy takes the steps, on the diagnosis's own batch.
        optimizer: whose kind, state and settings the copy's has; SGD at 0.1 by default.
        steps: how many.

    Returns:
        The diagnosis with `forecast`, with `stages`, and with the findings of the stages that the
        start did not show.
    """
    batch, loss = diagnosis.setting.batch, diagnosis.setting.loss
    options = diagnosis.setting.options
    limits = Thresholds.of(options.get("thresholds"))
    silenced = frozenset(options.get("silence", ()))
    with preserve_model(model, copy_parameters=False):
        twin, stepper = copy_training(model, optimizer)
        budget = options.get("budget") or BUDGET
        reader = FirstStepsReader(twin, [batch], loss=loss, steps=steps)
        plan = TrainingPlan(budget, plan_rates([stepper], None, budget))
        stages = [(0, diagnosis)]
        for stage in look_ahead(
            twin, stepper, [batch] * steps, loss=loss, at=(1, steps), reader=reader
        ):
            stepper.zero_grad(set_to_none=True)  # read already: as large as the model
            measured = measure.standard(
                twin, batch, loss=loss, optimizer=stepper, blocks=diagnosis.blocks
            )
            result = findings_of(
                evidence_of(diagnosis.blocks, measured, batch), limits, silenced=silenced
            )
            reported = {**diagnosis.provenance, "loss": measured["gradients"].settings.get("loss")}
            later = replace(
                diagnosis, measurements=measured, findings=result, provenance=reported, stages=()
            )
            stages.append((stage.step, later))
    seen = tell(reader.first_steps(plan, [stepper]), [batch])
    known = replace(diagnosis, stages=tuple(stages), forecast=seen)
    # without an optimizer the steps are none that the user means to take
    return known if optimizer is None else with_findings_of_stages(known, limits, silenced)


def with_findings_of_stages(
    diagnosis: "Diagnosis", limits: Thresholds, silenced: frozenset[str] = frozenset()
) -> "Diagnosis":
    """The diagnosis with what its later stages show and the start does not, and with their losses judged."""
    rules = all_rules()
    severest: dict[str, int] = {}
    for finding in diagnosis.findings:
        severest[finding.code] = max(finding.severity.rank, severest.get(finding.code, -1))
    added: list[Finding] = []
    for step, stage in diagnosis.stages:
        for finding in stage.findings if step else ():
            if finding.code not in severest and not rules[finding.code].initial_only:
                severest[finding.code] = finding.severity.rank
                added.append(replace(finding, step=step))
    for finding in _of_look_ahead(diagnosis, limits):
        if not {finding.code, finding.cause} & silenced:
            added.append(finding)
    return replace(diagnosis, findings=in_order([*diagnosis.findings, *added], diagnosis.blocks))


def _of_look_ahead(diagnosis: "Diagnosis", limits: Thresholds) -> Iterator[Finding]:
    """What the rules that read the look-ahead find in the losses of its stages."""
    (_, first), *_, (steps, last) = diagnosis.stages
    losses = {"first_loss": first.provenance.get("loss"), "last_loss": last.provenance.get("loss")}
    seen = Measurement(name=LOOK_AHEAD, blocks=(), columns={}, settings={**losses, "steps": steps})
    measured = {**diagnosis.measurements, LOOK_AHEAD: seen}
    evidence = Evidence(tuple(diagnosis.blocks), measured, epsilon=0.0)
    for rule in all_rules().values():
        if rule.find is not None and LOOK_AHEAD in rule.reads:
            yield from rule.find(evidence, limits)


def events_of(diagnosis: "Diagnosis") -> tuple[FindingEvent, ...]:
    """Which came first: every kind of finding with the first stage that shows it, in that order."""
    seen: dict[str, FindingEvent] = {}
    for step, stage in diagnosis.stages or ((0, diagnosis),):
        for finding in stage.findings:
            seen.setdefault(finding.code, FindingEvent(step=step, finding=finding))
    return tuple(sorted(seen.values(), key=lambda event: event.step))
