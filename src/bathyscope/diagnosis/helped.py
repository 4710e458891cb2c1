"""Whether a recipe helps: the loss expected at the end of the budget, beside the noise of two seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bathyscope.diagnosis.race import Attempt, Search, reseed
from bathyscope.diagnosis.verification import Verification
from bathyscope.foresight.extrapolation import (
    HIGHEST_END,
    absolute_loss,
    last_value,
    power_law,
    relative_losses,
)
from bathyscope.remedies import CHANGE_LEVELS

FAILS = 0.05
"""Fraction of the loss's scale by which a training that does not fail ends below the constant baseline."""

SMALLEST_NOISE = 0.02
"""Of the loss's scale: two seeds of one setting of real trainings differ by 1 to 2 % of the way."""

_ENOUGH = 16  # steps below the constant baseline from which on a curve is continued
_NEAR = 0.8  # of the way that the best goes: what changes less and gets this far is preferred


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is expected at the end of the budget with a recipe and without it.

    Attributes:
        budget: steps that the user means to train for.
        treated: loss expected with the recipe.
        untreated: loss expected without it; infinite where it diverged.
        noise: the larger of what two seeds differ by, with the recipe and without, at the same step.
        helps: the recipe gains more than the noise, no longer fails, and carries over to other samples.
    """

    budget: int
    treated: float
    untreated: float
    noise: float
    helps: bool


def expected_end(attempt: Attempt, budget: int) -> float:
    """Relative loss at the end of a budget: 0 at the constant baseline, −1 where all of it is gone.

    The mean of the last value and of a power law, each of which errs to one side. What was seen to the
    end of the budget is not extrapolated, nor is a fall from above to the constant baseline: many
    trainings that fail take it and end there. Below the lowest value that the loss can have no law goes.
    """
    if not attempt.losses or not math.isfinite(attempt.end):
        return HIGHEST_END
    curve = _relative(attempt)
    last = min(last_value(curve, budget), HIGHEST_END)
    above = np.flatnonzero(curve > 0)
    learning = curve[above[-1] + 1 :] if len(above) else curve
    if len(curve) >= budget or last > -FAILS or len(learning) < _ENOUGH:
        return last
    seen = len(curve) - len(learning)
    law = power_law(learning, budget - seen)
    if min(attempt.losses) >= attempt.lowest:
        law = max(law, (attempt.lowest - attempt.constant) / attempt.scale)
    return 0.5 * (last + min(last, law))


def _relative(attempt: Attempt) -> np.ndarray:
    """Relative losses of a training; a reward may pass its baseline by any multiple of its size."""
    losses = np.array(attempt.losses, dtype=np.float64)
    curve = relative_losses(losses, attempt.constant, attempt.scale)
    return np.where(
        losses < 0, np.minimum(curve, (losses - attempt.constant) / attempt.scale), curve
    )


def choose(verification: Verification, untreated: Attempt, *, budget: int) -> Attempt | None:
    """What to apply: the recipe that passed; else the smallest change that gets near the best end.

    None where the network is best left as it is.
    """
    passed = verification.passed
    if passed is not None:
        return passed if passed.recipe.steps else None
    treated = [a for a in verification.attempts if a.recipe.steps and a.generalizes is not False]
    ends = {id(a): expected_end(a, budget) for a in treated}
    best = min(ends.values(), default=0.0)
    near = [a for a in treated if ends[id(a)] <= -FAILS and ends[id(a)] <= _NEAR * best]
    chosen = min(
        near, key=lambda a: (CHANGE_LEVELS.index(a.recipe.level), len(a.recipe.steps)), default=None
    )
    alike = [a for a in verification.attempts if not a.recipe.steps] or [untreated]
    without = min(expected_end(a, budget) for a in alike)
    if chosen is None or without - ends[id(chosen)] <= SMALLEST_NOISE:
        return None
    return chosen


def judge(
    chosen: Attempt, verification: Verification, racers: Sequence[Search], *, budget: int
) -> Judgement:
    """Compare what is expected at the end of the budget with a recipe and without it.

    Args:
        chosen: the verifying training of the recipe.
        verification: all verifying trainings, one of the untreated network among them if there was time.
        racers: of the race, the untreated copy first; they began at another seed.
        budget: steps that the user means to train for.
    """
    same = [r.attempt for r in racers if r.recipe.steps and reseed(r.recipe, 1) == chosen.recipe]
    bare = [racers[0].attempt, *(a for a in verification.attempts if not a.recipe.steps)]
    noise = max(_noise([chosen, *same]), _noise(bare), SMALLEST_NOISE)
    end = expected_end(chosen, budget)
    # the longest training of the untreated network knows most of its end
    without = expected_end(max(bare, key=lambda a: len(a.losses)), budget)
    first = racers[0].attempt
    return Judgement(
        budget=budget,
        treated=absolute_loss(end, chosen.constant, chosen.scale),
        untreated=math.inf
        if without >= HIGHEST_END
        else absolute_loss(without, first.constant, first.scale),
        noise=noise * chosen.scale,
        helps=chosen.generalizes is not False and end <= -FAILS and without - end > noise,
    )


def _noise(attempts: Sequence[Attempt]) -> float:
    """How far apart the relative losses of two seeds are at the last step that both took."""
    finite = [a for a in attempts if math.isfinite(a.end)][:2]
    if len(finite) < 2:
        return 0.0
    steps = min(len(a.losses) for a in finite)
    ends = [last_value(_relative(a)[:steps], steps) for a in finite]
    # one that has not begun to learn differs from one that has by when it began, and not by noise
    return abs(ends[0] - ends[1]) if max(ends) < HIGHEST_END else 0.0
