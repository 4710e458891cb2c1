"""Rows for the fit: the course of a look-ahead, and how that training really ended."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bathyscope.core.rate_plan import RatePlan
from bathyscope.foresight.course import FirstSteps, TrainingPlan
from bathyscope.foresight.curve_features import baseline_of, course_features
from bathyscope.foresight.extrapolation import HIGHEST_END, METHODS, relative_losses
from bathyscope.foresight.goal import Goal
from bathyscope.foresight.readings import Reading
from tools.real_trainings.case import Case
from tools.real_trainings.curve import decode_curve
from tools.real_trainings.draw import _sensible_rate
from tools.real_trainings.labels import Labeled, end_loss, label_records
from tools.real_trainings.observe import OBSERVED, Observed
from tools.real_trainings.record import Record
from tools.real_trainings.schedules import SCHEDULES
from tools.real_trainings.tasks.registry import TASKS

DECADE = (0.5, 1.6)
"""How far apart, in powers of ten, the rates of two settings lie that count as a decade apart."""


@dataclass(frozen=True)
class Example:
    """One training of the table.

    Attributes:
        case, seed: which.
        features: by name; none where the look-ahead became non-finite.
        course: the look-ahead.
        label: how it ended.
        end: the relative loss at the end, by the look-ahead's own baseline.
        position: log₁₀ of its rate against the task's sensible one.
        again: the features with the first losses of the training itself, whose batches come in another
            order than those of the look-ahead; none where one of them is non-finite. For the fit only:
            whoever asks for a forecast has no such training yet.
    """

    case: Case
    seed: int
    features: dict[str, float] | None
    course: FirstSteps
    label: Labeled
    end: float
    position: float
    again: dict[str, float] | None = None

    @property
    def naive(self) -> dict[str, float]:
        """The end that simple methods say."""
        assert self.features is not None
        return {name: self.features[f"said by {name}"] for name in METHODS}


def read_observed(path: Path = OBSERVED) -> list[Observed]:
    """The look-aheads that were recorded."""
    return [Observed(**json.loads(line)) for line in path.read_text().splitlines()]


def course_of(case: Case, seen: Observed) -> FirstSteps:
    """The course of a recorded look-ahead."""
    losses = tuple(map(float, decode_curve(seen.losses)))
    norms = tuple(map(float, decode_curve(seen.norms)))
    rate = case.setting.learning_rate
    schedule = SCHEDULES[case.setting.schedule]
    rates = tuple((rate * schedule(step, case.budget),) for step in range(case.budget))
    goal = Goal(seen.kind, seen.baseline or abs(losses[0]) or 1.0, 0.0, baseline=seen.baseline)  # type: ignore[arg-type]
    last = max(map(int, seen.readings))
    is_finite = math.isfinite(losses[-1]) and "update" in seen.readings[str(last)]
    readings = tuple(
        Reading(int(step), values, losses[: int(step)], goal, int(step) < last or is_finite)
        for step, values in seen.readings.items()
    )
    return FirstSteps(
        losses=losses,
        gradient_norms=norms,
        readings=readings,
        plan=TrainingPlan(case.budget, RatePlan(rates), True, case.setting.clip),
        baseline=seen.baseline,
        batch_size=seen.batch_size,
        num_parameters=seen.num_parameters,
        is_adaptive=case.setting.optimizer in ("adam", "adamw", "rmsprop"),
        has_momentum=case.setting.optimizer in ("momentum", "adam", "adamw"),
        num_batches=len(losses),
    )


def make_examples(
    cases: Sequence[Case],
    records: Iterable[Record],
    observed: Iterable[Observed],
    *,
    held_out: bool = False,
) -> list[Example]:
    """The examples of all trainings that are recorded, labeled and observed; held-out ones or the others."""
    by_id = {case.id: case for case in cases if case.is_held_out == held_out}
    kept = [record for record in records if record.id in by_id]
    labels = label_records(by_id.values(), kept)
    seen = {(o.id, o.seed): o for o in observed if o.id in by_id}
    result = []
    for record in kept:
        key = record.id, record.seed
        if key in labels and key in seen:
            result.append(_example(by_id[record.id], record, seen[key], labels[key]))
    return result


def _example(case: Case, record: Record, seen: Observed, label: Labeled) -> Example:
    course = course_of(case, seen)
    constant, scale = baseline_of(course)
    loss = end_loss(record.loss_curve()) if record.steps == case.budget else math.inf
    (end,) = relative_losses(np.array([loss]), constant, scale)
    sensible = _sensible_rate(case.setting.optimizer, TASKS[case.task], case.family)
    return Example(
        case=case,
        seed=record.seed,
        features=course_features(course) if course.is_finite else None,
        course=course,
        label=label,
        end=min(float(end), HIGHEST_END),
        position=math.log10(case.setting.learning_rate / sensible),
        again=_seen_again(course, record),
    )


def _seen_again(course: FirstSteps, record: Record) -> dict[str, float] | None:
    """The features with the curves of the training itself, as far as the look-ahead went."""
    steps = len(course.losses)
    losses, norms = record.loss_curve()[:steps], decode_curve(record.gradient_norms)[:steps]
    if not course.is_finite or len(losses) < steps or not np.isfinite(losses).all():
        return None
    curves = tuple(map(float, losses)), tuple(map(float, norms))
    return course_features(replace(course, losses=curves[0], gradient_norms=curves[1]))


def decade_gains(examples: Sequence[Example], sign: int) -> list[tuple[Example, float]]:
    """What settings of the same network gained whose rate lies about a decade lower or higher.

    Rates of several optimizers are compared by their distance to the sensible rate of each.

    Args:
        examples: of all settings.
        sign: −1 for a decade down, 1 for a decade up.
    """
    result = []
    for one in examples:
        near = [
            one.end - other.end
            for other in examples
            if (other.case.network_id, other.seed) == (one.case.network_id, one.seed)
            and DECADE[0] <= sign * (other.position - one.position) <= DECADE[1]
        ]
        if near and one.features is not None:
            result.append((one, sum(near) / len(near)))
    return result
