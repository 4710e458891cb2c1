"""Will it train? A few steps on a copy, a calibrated probability, and a verdict that may be undecided."""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core.arguments import check_count
from bathyscope.core.batch import LossFn, check_batches, check_parameters, own_loss
from bathyscope.core.losses import loss_named
from bathyscope.core.preserve import preserve_model, preserve_random_state
from bathyscope.core.processes import processes_of
from bathyscope.core.shards import put_together
from bathyscope.foresight.model import Model, standard_model
from bathyscope.foresight.readings import STAGES, Reading, is_telling, readings
from bathyscope.foresight.record import FailureKind, Forecast, ForecastVerdict
from bathyscope.foresight.words import describe_evidence

_MOST_REASONS = 3
_FALLS = 0.02
"""Fraction of the constant baseline's loss that a slow training loses within the steps seen; less: stuck."""


def forecast(
    model: nn.Module,
    batches: Iterable[object],
    *,
    loss: LossFn | str | None = F.cross_entropy,
    optimizer: torch.optim.Optimizer | None = None,
    budget: int = 300,
    spend: int | None = None,
) -> Forecast:
    """Say whether a network will train, from a few steps on a copy.

    `trains` means 80 % of the training labels right (or of the variance explained) after the budget,
    `fails` less than half. The copy takes its steps in stages, after 1, 8, 16 and 32, and stops as
    soon as the model is sure.

    Args:
        model: any module; it is left as it was, as are the optimizer and the random state.
        batches: pairs of inputs and targets, or mappings for a model that computes its own loss; one
            step each, fresh ones where possible; fewer than the steps are taken again. Of several
            processes (DistributedDataParallel, `fully_shard`) each gives its parts.
        loss: a scalar from output and targets, or its name; None where the model's output carries its
            own.
        optimizer: the one meant for training; SGD at 0.1 with momentum by default.
        budget: steps that you mean to train for.
        spend: most steps that the copy may take; 32 by default.

    Returns:
        The forecast: `verdict`, `probability`, `kind`, `because`, `spent`, `inside`.

    Raises:
        UsageError: the batches, the loss, the optimizer or the model do not fit the others, the
            model cannot be copied, or an argument is of another kind.

    Examples:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> with torch.no_grad():
        ...     _ = model[0].weight.fill_(float("inf"))
        >>> seen = forecast(model, [(torch.randn(16, 4), torch.randint(3, (16,)))])
        >>> seen.verdict, seen.kind, seen.spent
        ('fails', 'diverging', 1)
    """
    budget = check_count("budget", budget, minimum=1)
    most = max(STAGES) if spend is None else check_count("spend", spend, minimum=1)
    check_parameters(model)
    at = stages_up_to(most)
    with preserve_random_state(batches):  # a loader may draw random numbers
        given = check_batches(model, batches, most=at[-1])
    if isinstance(loss, str):
        loss = loss_named(loss)
    loss = own_loss if loss is None else loss
    if processes_of(model) is not None:
        with put_together(model, given, optimizer, what="forecast") as (inner, whole, stepper):
            return forecast(
                inner, whole, loss=loss, optimizer=stepper, budget=budget, spend=spend
            )  # fmt: skip
    with preserve_model(model, copy_parameters=False):
        seen = readings(model, given, loss=loss, optimizer=optimizer, at=at)
        return judge(seen, budget=budget, num_batches=len(given))


def stages_up_to(most: int) -> list[int]:
    """After which steps a look-ahead of at most this many is judged."""
    return [step for step in STAGES if step <= most]


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
            return _non_finite(reading, budget, model)
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
        notes=_notes(reading, num_batches),
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
    fell = (sum(early) / len(early) - sum(late) / len(late)) / reading.goal.constant_loss
    return "slow" if fell > _FALLS and gone > 0 else "stuck"


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


def _notes(reading: Reading, num_batches: int) -> tuple[str, ...]:
    if num_batches >= reading.step:
        return ()
    return (
        f"{num_batches} batch{'es' * (num_batches != 1)} for {reading.step} steps: they were taken "
        "again, and learning a few by heart looks better than learning.",
    )


def _non_finite(reading: Reading, budget: int, model: Model) -> Forecast:
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
        calibrated_on=model.about,
    )
