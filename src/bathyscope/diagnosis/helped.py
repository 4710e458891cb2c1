"""Whether a recipe helps: the loss expected at the end of the budget, beside the noise of two seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bathyscope.diagnosis.expectation import (
    FAILS,
    SMALLEST_NOISE,
    expected_end,
    is_clearly_better,
    seed_noise,
)
from bathyscope.diagnosis.race import Attempt, Search
from bathyscope.diagnosis.verification import Verification, reseed
from bathyscope.foresight.extrapolation import HIGHEST_END, absolute_loss
from bathyscope.remedies import CHANGE_LEVELS

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
    bare = [racers[0].attempt, *(a for a in verification.attempts if not a.recipe.steps)]
    noise = max(noise_with(chosen, racers), seed_noise(bare), SMALLEST_NOISE)
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
        helps=chosen.generalizes is not False
        and end <= -FAILS
        and without - end > noise
        and _holds_as_early(chosen, bare, noise=noise, budget=budget),
    )


def _holds_as_early(chosen: Attempt, bare: Sequence[Attempt], *, noise: float, budget: int) -> bool:
    """Whether it was as good when it had trained no longer than the untreated network, or is so for sure."""
    steps = max(len(a.losses) for a in bare)
    if steps >= len(chosen.losses) or any(not math.isfinite(a.end) for a in bare):
        return True
    if is_clearly_better(chosen, bare, noise=noise, budget=budget):
        return True
    early = replace(chosen, losses=chosen.losses[:steps], accuracies=chosen.accuracies[:steps])
    without = expected_end(max(bare, key=lambda a: len(a.losses)), budget)
    return without - expected_end(early, budget) > noise


def noise_with(chosen: Attempt, racers: Sequence[Search]) -> float:
    """How far a recipe's verifying training is from its copy in the race, which began at another seed."""
    same = [r.attempt for r in racers if r.recipe.steps and reseed(r.recipe, 1) == chosen.recipe]
    return seed_noise([chosen, *same])
