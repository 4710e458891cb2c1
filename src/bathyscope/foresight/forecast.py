"""Will it train? Steps on a copy, probabilities of how it ends, the loss to be expected, and a verdict."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from bathyscope.core.arguments import check_count, check_number, hinted
from bathyscope.core.batch import Batch, LossFn, check_batches, check_parameters, own_loss
from bathyscope.core.call_forms import as_trained, is_trainer, read_call
from bathyscope.core.devices import ON_A_COPY, lacks_double, on_cpu
from bathyscope.core.errors import UsageError
from bathyscope.core.global_state import autocast_in_passes_alone, preserve_random_state
from bathyscope.core.losses import loss_named
from bathyscope.core.preserve import preserve_model
from bathyscope.core.processes import processes_of
from bathyscope.core.rate_plan import RatePlan, plan_rates
from bathyscope.core.shards import put_together
from bathyscope.core.stepping import LEARNING_RATE, check_optimizer, copy_to_cpu
from bathyscope.foresight.course import FirstSteps, TrainingPlan, look_ahead_steps, take_course
from bathyscope.foresight.curve_features import (
    baseline_of,
    course_features,
    lowest_of,
    relative_course,
)
from bathyscope.foresight.curve_model import SURE, CurveModel, Outlook, standard_curve_model
from bathyscope.foresight.extrapolation import absolute_loss, end_steps
from bathyscope.foresight.readings import STAGES
from bathyscope.foresight.record import Forecast, ForecastVerdict
from bathyscope.foresight.small_networks import (
    failure_kind,
    is_small,
    judge,
    non_finite,
    repeat_notes,
)
from bathyscope.foresight.words import describe_feature

_MOST_REASONS = 3
_FEW = 4
"""Where a batch is taken more often than this, the copy may learn it by heart."""

_LEARNABLE = 0.05
"""Of the loss's scale: an end nearer to the constant baseline than this has learned nothing."""


@hinted("bs.forecast(model, loader, optimizer=…, budget=…)")
@autocast_in_passes_alone()
def forecast(
    model: object,
    batches: object = None,
    *,
    loss: LossFn | str | None = F.cross_entropy,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    budget: int = 300,
    spend: int | None = None,
    scheduler: LRScheduler | Callable[[int], float] | None = None,
    clip: float | None = None,
    accumulate: int = 1,
    baseline: float | None = None,
) -> Forecast:
    """Say how a training will end, from a few of its first steps on a copy.

    A training `fails` where it stalls at the constant baseline, diverges or falls back; it `lags` where
    another setting of the same network would be far ahead at the end of the budget; else it `trains`.
    All are judged by the loss, whatever it is. For networks like those of the table of small ones
    (docs/forecast.md) `trains` means 80 % of the labels right, as it always did.

    Args:
        model: any module, a Hugging Face `Trainer` or a `LightningModule` with its own loss, batches and
            optimizer; it is left as it was, as are the optimizer and the random state.
        batches: pairs of inputs and targets, or mappings for a model that computes its own loss; one
            step each, fresh ones where possible; fewer than the steps are taken again. Of several
            processes (DistributedDataParallel, `fully_shard`) each gives its parts.
        loss: a scalar from output and targets, or its name; None where the model's output carries its own,
            or is it.
        optimizer: the one meant for training, or several that step together; SGD at 0.1 with momentum
            by default.
        budget: steps that you mean to train for.
        spend: most steps that the copy may take; the larger of 40 and 4 % of the budget by default.
        scheduler: of the optimizer, or a function from the step (the first is 0) to a factor of its
            learning rates. It is left as it was.
        clip: the largest norm of the gradient, where you clip it.
        accumulate: batches whose gradients you add up for one step.
        baseline: the loss of the best constant output, where you know it and it cannot be found from
            the targets, as for a model that computes its own loss.

    Returns:
        The forecast: `verdict`, `probability`, `kind`, `loss_at_budget`, `interval`, `probabilities`,
        `gains`, `because`, `spent`, `inside`.

    Raises:
        UsageError: the batches, the loss, the optimizer, the scheduler or the model do not fit the
            others, the model cannot be copied, or an argument is of another kind.

    Examples:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> with torch.no_grad():
        ...     _ = model[0].weight.fill_(float("inf"))
        >>> seen = forecast(model, [(torch.randn(16, 4), torch.randint(3, (16,)))])
        >>> seen.verdict, seen.kind, seen.spent
        ('fails', 'diverging', 1)
    """
    # long: a trainer, several processes and a device without doubles each ask once more, of another model
    budget = check_count("budget", budget, minimum=1)
    accumulate = check_count("accumulate", accumulate, minimum=1)
    spend = None if spend is None else check_count("spend", spend, minimum=1)
    clip = None if clip is None else check_number("clip", clip, low=0.0, open_low=True)
    baseline = None if baseline is None else check_number("baseline", baseline, low=-math.inf)
    if is_trainer(model):
        with as_trained(model):
            call = read_call(model, batches, loss=None)
            return forecast(
                call.model, call.batches, loss=None, budget=budget, spend=spend, scheduler=scheduler,
                optimizer=call.optimizer if optimizer is None else optimizer, clip=clip,
                accumulate=accumulate, baseline=baseline,
            )  # fmt: skip
    check_parameters(model)  # raises where it is not a module
    assert isinstance(model, nn.Module)
    steps = look_ahead_steps(budget, spend)
    if isinstance(loss, str):
        loss = loss_named(loss)
    loss = own_loss if loss is None else loss
    with preserve_random_state(batches):  # a loader may draw random numbers
        given = check_batches(model, batches, most=steps * accumulate)
    if processes_of(model) is not None:
        steppers = _optimizers(model, optimizer)
        rates = plan_rates(steppers, scheduler, budget) if scheduler is not None else None
        with put_together(model, given, steppers[0], what="forecast") as (inner, whole, stepper):
            return forecast(
                inner, whole, loss=loss, optimizer=stepper, budget=budget, spend=spend, clip=clip,
                scheduler=None if rates is None else _as_factors(rates), accumulate=accumulate,
                baseline=baseline,
            )  # fmt: skip
    if lacks_double(model):
        steppers = _optimizers(model, optimizer)
        rates = plan_rates(steppers, scheduler, budget) if scheduler is not None else None
        twin, copied = copy_to_cpu(model, steppers[0])
        one = forecast(
            twin, on_cpu(given), loss=loss, optimizer=copied, budget=budget, spend=spend, clip=clip,
            scheduler=None if rates is None else _as_factors(rates), accumulate=accumulate,
            baseline=baseline,
        )  # fmt: skip
        return replace(one, notes=(ON_A_COPY, *one.notes))
    steppers = _optimizers(model, optimizer)
    rates = plan_rates(steppers, scheduler, budget)
    plan = TrainingPlan(budget, rates, scheduler is not None, clip, accumulate)
    with preserve_model(model, copy_parameters=False):
        course = take_course(
            model,
            given,
            loss=loss,
            optimizers=steppers,
            plan=plan,
            steps=steps,
            baseline=baseline,
        )
        return tell(course, given)


def tell(
    course: FirstSteps, batches: Sequence[Batch], *, model: CurveModel | None = None
) -> Forecast:
    """The forecast of a course.

    Args:
        course: of the copy.
        batches: that were given.
        model: the fitted numbers; those of the package by default.
    """
    model = model or standard_curve_model()
    last = course.readings[-1]
    notes = (
        *course.plan.rates.notes,
        *repeat_notes(last.step * course.plan.accumulate, len(batches)),
    )
    if not course.is_finite:
        return replace(
            non_finite(last, course.plan.budget, model.about), notes=course.plan.rates.notes
        )
    constant, scale = baseline_of(course)
    if len(course.losses) >= course.plan.budget or _is_still(course):
        return _seen_whole(course, notes, model)
    seen = course_features(course)
    outlook = model.outlook(seen)
    lowest = lowest_of(course)
    low, end, high = (max(lowest, absolute_loss(value, constant, scale)) for value in outlook.end)
    result = _by_curves(course, outlook, model)
    stages = [r for r in course.readings if r.step in STAGES]
    if stages and not course.plan.is_scheduled:
        by_small = judge(stages, budget=course.plan.budget, num_batches=len(batches))
        # where only one of the tables holds such networks, it is asked: deep ones are in the small one
        if is_small(course, batches[0]) or (outlook.distance > 1 and by_small.inside):
            result = by_small
    if (
        result.verdict == "fails"
    ):  # the small table may be sure long before the last step that was seen
        result = replace(result, kind=failure_kind(last))
    if result.kind == "stuck":  # what nothing moves ends where it is
        end = absolute_loss(seen["said by last value"], constant, scale)
        low, high = min(low, end), max(high, end)
    return replace(
        result,
        spent=len(course.losses),
        notes=notes,
        probabilities=result.probabilities,
        loss_at_budget=end,
        interval=(low, high),
        baseline=course.baseline,
        gains={
            factor: (scale * gain, probability)
            for factor, (gain, probability) in zip(
                ("0.1", "10"), outlook.gains.values(), strict=True
            )
            if outlook.distance <= 1
        },
    )


def _by_curves(course: FirstSteps, outlook: Outlook, model: CurveModel) -> Forecast:
    """What the model of real trainings says."""
    chance = dict(outlook.probabilities)
    needed = course.plan.accumulate * len(course.losses)
    if course.num_batches * _FEW < needed:
        # a few batches learned by heart say little: half of what is said is that nothing is known
        chance = {name: 0.5 * p + 0.5 / len(chance) for name, p in chance.items()}
    outside = _outside(course, outlook)
    last = course.readings[-1]
    verdict = _verdict(chance)
    return Forecast(
        verdict=verdict,
        probability=1 - chance["fails"],
        kind=failure_kind(last) if verdict == "fails" else None,
        because=_reasons(course, outlook),
        spent=len(course.losses),
        budget=course.plan.budget,
        inside=not outside,
        outside=outside,
        notes=(),
        calibrated_on=model.about,
        probabilities=chance,
    )


def _verdict(chance: dict[str, float]) -> ForecastVerdict:
    if chance["fails"] >= SURE:
        return "fails"
    if chance["fails"] > 1 - SURE:
        return "undecided"
    return "lags" if chance["lags"] >= 0.5 else "trains"


def _outside(course: FirstSteps, outlook: Outlook) -> tuple[str, ...]:
    """In what a training lies outside of the table."""
    result = []
    if outlook.distance > 1:
        far = " and ".join(f"its {name} of {value:.3g}" for name, value in outlook.farthest)
        result.append(
            f"it lies {outlook.distance:.2g} times as far from the trainings seen as the farthest of "
            f"them, by {far}"
        )
    if course.baseline is None:
        result.append(
            "its constant baseline is not known (give baseline=), so that progress is measured from the "
            "untrained network"
        )
    return tuple(result)


def _reasons(course: FirstSteps, outlook: Outlook) -> tuple[str, ...]:
    """What moved the probability most, in words and numbers; what reads alike weighs together."""
    weights: dict[str, float] = {}
    for name, moved in outlook.contributions.items():
        text = describe_feature(name, course)
        weights[text] = weights.get(text, 0.0) - moved
    heaviest = sorted(weights.items(), key=lambda part: -abs(part[1]))[:_MOST_REASONS]
    return tuple(
        f"{text} ({'for' if weight > 0 else 'against'}, {abs(weight):.2f})"
        for text, weight in heaviest
    )


def _is_still(course: FirstSteps) -> bool:
    """Whether nothing moves: the loss is one number and its gradient zero."""
    return (
        len(course.losses) > 1 and not any(course.gradient_norms) and len(set(course.losses)) == 1
    )


def _seen_whole(course: FirstSteps, notes: tuple[str, ...], model: CurveModel) -> Forecast:
    """The forecast where the whole budget was taken, or nothing can move: what was seen is the end."""
    tail = course.losses[-end_steps(len(course.losses)) :]
    end = sum(tail) / len(tail)
    constant, scale = baseline_of(course)
    relative = float(relative_course(course)[-len(tail) :].mean())
    fails = relative > -_LEARNABLE or _is_still(course)
    reference = "untrained network's" if course.baseline is None else "constant baseline's"
    how = (
        f"the loss stays at {end:.4g} and its gradient is zero"
        if _is_still(course)
        else f"{_all_steps(len(course.losses))} taken, and the loss over the last {len(tail)} is "
        f"{end:.4g}, the {reference} {constant:.4g}"
    )
    spread = scale * 0.02
    return Forecast(
        verdict="fails" if fails else "trains",
        probability=0.0 if fails else 1.0,
        kind=("stuck" if _is_still(course) else failure_kind(course.readings[-1]))
        if fails
        else None,
        because=(how,),
        spent=len(course.losses),
        budget=course.plan.budget,
        inside=True,
        outside=(),
        notes=notes,
        calibrated_on=model.about,
        loss_at_budget=end,
        interval=(max(lowest_of(course), end - spread), end + spread),
        baseline=course.baseline,
    )


def _all_steps(count: int) -> str:
    return (
        f"all {count} steps of the budget were" if count > 1 else "the one step of the budget was"
    )


def _optimizers(
    model: nn.Module, given: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None
) -> list[torch.optim.Optimizer]:
    """The optimizers of a training.

    Raises:
        UsageError: something else was given, or one that climbs.
    """
    if given is None:
        trained = [p for p in model.parameters() if p.requires_grad]
        if not trained:
            raise UsageError(
                "No parameter of the model requires a gradient; unfreeze those that are to be trained."
            )
        return [torch.optim.SGD(trained, lr=LEARNING_RATE, momentum=0.9)]
    result = [given] if isinstance(given, torch.optim.Optimizer) else _listed(given)
    if not result:
        raise UsageError("The list of optimizers is empty; give at least one, or None.")
    for optimizer in result:
        if any(group.get("maximize") for group in optimizer.param_groups):
            raise UsageError(
                "The optimizer maximizes (maximize=True), and a forecast reads losses that are to fall; "
                "give the negative of the loss and an optimizer that minimizes it."
            )
    return result


def _listed(given: Any) -> list[torch.optim.Optimizer]:
    result = list(given) if isinstance(given, (tuple, list)) else [given]
    for optimizer in result:
        check_optimizer(optimizer)
    return result


def _as_factors(rates: RatePlan) -> Callable[[int], float]:
    """The plan as a function of the step, for a copy whose groups have the rates of today."""
    first = sum(rates.at(0)) / len(rates.at(0))
    return lambda step: sum(rates.at(step)) / len(rates.at(step)) / max(first, math.ulp(0.0))
