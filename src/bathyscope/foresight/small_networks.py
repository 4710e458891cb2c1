"""The verdict on small networks: a logistic regression on 843 random trainings of small data.

It answers for networks like those of its table (`is_small`): labels or noise-free numbers, samples of
64 numbers or 12 tokens, batches of 32, at most 1,000 steps at one rate. There "trains" means that 80 %
of the labels are right, or of the variance explained.
"""

import math
from collections.abc import Iterable
from statistics import fmean, pstdev

from bathyscope.core.batch import Batch
from bathyscope.core.json_values import JsonMapping
from bathyscope.core.nested import tensors_in
from bathyscope.foresight.course import FirstSteps
from bathyscope.foresight.model import Model, standard_model
from bathyscope.foresight.readings import Reading, is_telling
from bathyscope.foresight.record import FailureKind, Forecast, ForecastVerdict
from bathyscope.foresight.words import describe_evidence

_MOST_REASONS = 3
_FALLS = 0.02
"""Fraction of the constant baseline's loss that a slow training loses within the steps seen; less: stuck."""

_NUMBERS, _TOKENS, _BATCH = (32, 128), 16, (16, 64)
"""Numbers or tokens a sample and samples a batch of networks like the small table's: 64 or 12, and 32."""


def is_small(course: FirstSteps, batch: Batch) -> bool:
    """Whether a training is one like those of the table of small networks."""
    plan, goal = course.plan, course.readings[-1].goal
    low, high = standard_model().budgets[0], standard_model().budgets[-1]
    usual = not plan.is_scheduled and plan.clip is None and plan.accumulate == 1
    inputs = next(iter(tensors_in(batch[0])), None)
    if inputs is None or goal.kind == "other" or not usual or not low <= plan.budget <= high:
        return False
    size = inputs[0].numel() if inputs.ndim > 1 else 1
    fits = _NUMBERS[0] <= size <= _NUMBERS[1] if inputs.is_floating_point() else size <= _TOKENS
    return fits and _BATCH[0] <= len(inputs) <= _BATCH[1]


def judge(
    seen: Iterable[Reading],
    *,
    budget: int,
    num_batches: int,
    model: Model | None = None,
) -> Forecast:
    """The forecast of a look-ahead that continues only as long as it is unsure.

    Args:
        seen: readings, stage by stage, at least one.
        budget: steps that the user means to train for.
        num_batches: how many different ones there are.
        model: the calibrated numbers; those of the package by default.
    """
    model = model or standard_model()
    for reading in seen:
        if not reading.finite:
            return non_finite(reading, budget, model.about)
        probability = model.probability(reading.step, reading.values, budget)
        verdict = _verdict(reading, probability, model)
        if verdict != "undecided":
            break
    outside = differences(reading, budget, model)
    return Forecast(
        verdict=verdict,
        probability=probability,
        kind=failure_kind(reading) if verdict == "fails" else None,
        because=_reasons(reading, budget, model),
        spent=reading.step,
        budget=budget,
        inside=not outside,
        outside=outside,
        notes=repeat_notes(reading.step, num_batches),
        calibrated_on=model.about,
    )


def _verdict(reading: Reading, probability: float, model: Model) -> ForecastVerdict:
    """What a stage is sure of."""
    stage = model.stages[reading.step]
    if not is_telling(reading.step, reading.values):
        return "undecided"
    if probability >= stage.trains_above:
        return "trains"
    return "fails" if probability <= stage.fails_below else "undecided"


def failure_kind(reading: Reading) -> FailureKind:
    """How a training fails, from what its first steps show."""
    values = reading.values
    gone, excess = values.get("gone", 0.0), values["excess"]
    if not reading.finite or (gone < -0.05 and math.log1p(-gone) > excess + 0.05):
        return "diverging"
    if len(reading.losses) < 2:
        return "stuck"
    early = reading.losses[: max(1, len(reading.losses) // 4)]
    late = reading.losses[-max(1, len(reading.losses) // 4) :]
    fell = fmean(early) - fmean(late)
    # batches differ: a fall is one where it is larger than two standard errors
    error = math.hypot(pstdev(early), pstdev(late)) / math.sqrt(len(late))
    needed = max(_FALLS * reading.goal.constant_loss, 2 * error)
    return "slow" if fell > needed and gone > 0 else "stuck"


def differences(reading: Reading, budget: int, model: Model) -> tuple[str, ...]:
    """In what a network lies outside of what the model was calibrated on."""
    result = []
    if reading.goal.kind == "other":
        result.append("its loss is neither that of labels nor of as many numbers as it puts out")
    layers, most = round(10 ** reading.values["depth"]), model.about["most_layers"]
    if layers > most:
        result.append(f"it has {layers} weighted layers, those seen at most {most}")
    low, high = model.budgets[0], model.budgets[-1]
    if not low <= budget <= high:
        result.append(f"the budget of {budget} steps lies outside of {low} to {high}")
    for name, term in model.stages[reading.step].terms.items():
        value, margin = reading.values[name], 0.5 * (term.high - term.low)
        if not term.low - margin <= value <= term.high + margin:
            result.append(
                f"its {name.replace('_', ' ')} of {value:.3g} lies far from {term.low:.3g} to "
                f"{term.high:.3g}"
            )
    return tuple(result)


def _reasons(reading: Reading, budget: int, model: Model) -> tuple[str, ...]:
    parts = model.contributions(reading.step, reading.values, budget)
    parts.pop("bias")
    result: dict[str, float] = {}  # features that are reported in the same words weigh together
    for name, weight in parts.items():
        text = describe_evidence(name, reading)
        result[text] = result.get(text, 0.0) + weight
    heaviest = sorted(result.items(), key=lambda part: -abs(part[1]))[:_MOST_REASONS]
    return tuple(f"{text} ({'for' if w > 0 else 'against'}, {abs(w):.1f})" for text, w in heaviest)


def repeat_notes(needed: int, num_batches: int) -> tuple[str, ...]:
    """What is said where batches were taken again."""
    if num_batches >= needed:
        return ()
    return (
        f"{num_batches} batch{'es' * (num_batches != 1)} for {needed} steps: they were taken "
        "again, and learning a few by heart looks better than learning.",
    )


def non_finite(reading: Reading, budget: int, about: JsonMapping) -> Forecast:
    """The forecast of a training whose loss or gradient is non-finite."""
    where = "at the start" if reading.step == 1 else f"at step {reading.step}"
    return Forecast(
        verdict="fails",
        probability=0.0,
        kind="diverging",
        because=(f"the loss or its gradient is non-finite {where}",),
        spent=reading.step,
        budget=budget,
        inside=True,
        outside=(),
        notes=(),
        calibrated_on=about,
    )
