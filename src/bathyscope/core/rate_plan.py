"""The learning rates of a training, step by step, read from a scheduler without moving it."""

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from bathyscope.core.errors import UsageError, in_a_line
from bathyscope.core.stepping import check_optimizer

Schedule = LRScheduler | Callable[[int], float]
"""A scheduler of the optimizer, or a function from the step (the first is 0) to a factor of its rates."""

MOST_STEPS = 100_000
"""Steps of a scheduler that are simulated; a later step has the rate of the last of these."""


@dataclass(frozen=True)
class RatePlan:
    """Learning rates of every group of an optimizer, step by step.

    Attributes:
        rates: one row per step, one number per group.
        notes: what could not be known.
    """

    rates: tuple[tuple[float, ...], ...]
    notes: tuple[str, ...] = ()

    def at(self, step: int) -> tuple[float, ...]:
        """The rates of a step; the first is 0. Behind the plan's end they stay."""
        return self.rates[min(step, len(self.rates) - 1)]

    @property
    def factors(self) -> list[float]:
        """The mean rate of each step as a fraction of the largest of all; ones where all are zero."""
        means, largest = self._means, self.largest
        return [mean / largest for mean in means] if largest > 0 else [1.0] * len(means)

    @property
    def largest(self) -> float:
        """The largest mean rate."""
        return max(self._means)

    @cached_property
    def _means(self) -> list[float]:
        return [sum(row) / len(row) for row in self.rates]


def plan_rates(
    optimizers: Sequence[torch.optim.Optimizer], schedule: Schedule | None, budget: int
) -> RatePlan:
    """The rates that a training of this many steps will use.

    Args:
        optimizers: of the training; all their groups in a row. They are left as they are.
        schedule: a scheduler of one of them, a function from step to factor, or None: the rates of
            today stay.
        budget: steps.

    Raises:
        UsageError: the scheduler is of another optimizer, is not a scheduler, or cannot be simulated.

    Examples:
        >>> sgd = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
        >>> plan_rates([sgd], lambda step: 0.5**step, 3).rates
        ((0.5,), (0.25,), (0.125,))
    """
    today = tuple(float(g["lr"]) for o in optimizers for g in o.param_groups if "lr" in g)
    if not today:
        return RatePlan(((1.0,),), ("The optimizer has no learning rate.",))
    if schedule is None:
        return RatePlan((today,) * min(budget, MOST_STEPS), _scheduled_elsewhere(optimizers))
    if isinstance(schedule, LRScheduler):
        return _simulate(optimizers, schedule, budget)
    if not callable(schedule) or isinstance(schedule, type):
        given = schedule.__name__ if isinstance(schedule, type) else type(schedule).__name__
        raise UsageError(
            f"The scheduler is one of torch.optim.lr_scheduler or a function from step to factor, but "
            f"{given} was given."
        )
    first = tuple(float(g.get("initial_lr", g["lr"])) for o in optimizers for g in o.param_groups)
    rows = []
    for step in range(min(budget, MOST_STEPS)):
        factor = _factor(schedule, step)
        rows.append(tuple(rate * factor for rate in first))
    return RatePlan(tuple(rows))


def _factor(schedule: Callable[[int], float], step: int) -> float:
    try:
        factor = float(schedule(step))
    except Exception as error:  # a user's own function may raise anything
        raise UsageError(
            f"The scheduler cannot be asked for step {step}: {in_a_line(error)}; give a function from "
            "step to factor."
        ) from error
    if not math.isfinite(factor) or factor < 0:
        raise UsageError(
            f"The scheduler gives a factor of {factor} at step {step}; give finite ones of at least 0."
        )
    return factor


def _scheduled_elsewhere(optimizers: Sequence[torch.optim.Optimizer]) -> tuple[str, ...]:
    """A note where a scheduler has set other rates than it began with, and was not given."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            # OneCycleLR begins at a fraction of its peak, which it writes into the group
            first, now = group.get("max_lr", group.get("initial_lr")), group.get("lr")
            if first is not None and now is not None and not math.isclose(float(first), float(now)):
                return (
                    f"A scheduler holds the learning rate at {float(now):.3g} of {float(first):.3g}: "
                    "give it as scheduler=, or the rate of today is taken for all steps.",
                )
    return ()


def _simulate(
    optimizers: Sequence[torch.optim.Optimizer], schedule: LRScheduler, budget: int
) -> RatePlan:
    held = getattr(schedule, "optimizer", None)
    if not any(held is o for o in optimizers):
        raise UsageError(
            f"The scheduler ({type(schedule).__name__}) belongs to another optimizer; give the one that "
            "was built with this optimizer."
        )
    today = tuple(float(g["lr"]) for o in optimizers for g in o.param_groups)
    if isinstance(schedule, ReduceLROnPlateau):
        note = (
            "ReduceLROnPlateau follows losses to come: the rates of today are taken for all steps."
        )
        return RatePlan((today,) * min(budget, MOST_STEPS), (note,))
    # a substitute with one small parameter per group: the schedule needs the groups' settings alone
    assert held is not None
    substitute = _substitute(held)
    memo: dict[int, object] = {id(held): substitute}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            twin = copy.deepcopy(schedule, memo)
            rows = []
            for _ in range(min(budget, MOST_STEPS)):
                rates = iter([float(g["lr"]) for g in substitute.param_groups])
                rows.append(
                    tuple(
                        next(rates) if o is held else float(g["lr"])
                        for o in optimizers
                        for g in o.param_groups
                    )
                )
                twin.step()
    except Exception as error:  # a schedule ends, or a user's own raises
        if not rows:
            raise UsageError(
                f"The scheduler ({type(schedule).__name__}) cannot be followed: {in_a_line(error)}; "
                "give a function from step to factor."
            ) from error
        note = f"The scheduler ends after {len(rows)} steps: {in_a_line(error)}."
        return RatePlan(tuple(rows), (note,))
    return RatePlan(tuple(rows))


def _substitute(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """An optimizer of the same groups' settings over small parameters, whose step does nothing."""
    check_optimizer(optimizer)
    groups = []
    for group in optimizer.param_groups:
        settings = {key: copy.copy(value) for key, value in group.items() if key != "params"}
        groups.append({**settings, "params": [nn.Parameter(torch.zeros(1, device="cpu"))]})
    result = torch.optim.SGD(groups, lr=0.0)
    for kept, group in zip(result.param_groups, optimizer.param_groups, strict=True):
        kept.update({k: v for k, v in group.items() if k != "params"})
    return result
