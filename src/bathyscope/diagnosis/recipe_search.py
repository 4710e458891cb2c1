"""The search for a recipe: settings first; weights, activations and structure where settings do not do."""

import math
from dataclasses import dataclass
from statistics import fmean

from bathyscope.diagnosis.candidates import Candidate, candidates
from bathyscope.diagnosis.diagnosis import Diagnosis
from bathyscope.diagnosis.helped import FAILS
from bathyscope.diagnosis.race import LEARNED, Attempt, Race, Search, num_entrants, step_cost
from bathyscope.diagnosis.supply import Supply
from bathyscope.diagnosis.treatment import num_problems
from bathyscope.diagnosis.verification import MOST_STEPS, Verification, verify
from bathyscope.remedies import ChangeLevel, Recipe
from bathyscope.rules.targeted.context import Context

_TRIAL = 32  # steps after which the untreated copy may be known to train
_MOST_CANDIDATES = 40  # more than any budget lets start
_GAIN = 0.1  # of the untreated loss: another seed moves the end of a run by a few per cent
_FLAT = frozenset({"flat-start", "flat-to-second-order", "zero-gradient"})
_QUARTERS = 8  # of its steps, as long as the last one, within which what falls reaches the baseline
_OF_SETTINGS = 0.55  # fraction of the race's steps that settings may take where more is allowed


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The untreated copy and all recipes that raced, and the trainings that verify the best of them."""

    racers: list[Search]
    verification: Verification


def find_recipe(
    race: Race, diagnosis: Diagnosis, allow: tuple[ChangeLevel, ...], supply: Supply, *, budget: int
) -> SearchResult:
    """Race settings and what answers a finding; what is deeper where none of them passes.

    A copy that learns well in its first steps may still fall: it is left as it is only where a training
    of its own passes too, and races otherwise.

    Args:
        race: of the network; its untreated copy starts here.
        diagnosis: what is known of it.
        allow: levels that a recipe may use.
        supply: of batches; the verifying trainings take those that the race has not used.
        budget: steps that the user means to train for.
    """
    setting = diagnosis.setting
    [untreated] = race.enter([Candidate(Recipe())])
    race.advance(untreated, _TRIAL)
    context = Context(
        race.model, race.optimizer, setting.batch, diagnosis.blocks, diagnosis.findings, setting.loss
    )  # fmt: skip
    entrants = candidates(context, allow, _MOST_CANDIDATES)
    held_out = supply.reserve()
    longest = min(MOST_STEPS, budget)
    racers, tried = [untreated], Verification((), 0)
    if untreated.attempt.learned >= LEARNED:
        # what is targeted at a problem may still do much better
        targeted = [c for c in entrants if c.targeted and num_problems(diagnosis)]
        racers += race.enter(targeted)
        for search in racers[1:]:
            race.advance(search, _TRIAL)
        enough = untreated.attempt.end - _GAIN * abs(untreated.attempt.end)
        better = [r for r in racers[1:] if r.attempt.end < enough]
        best = min(better, key=lambda r: r.attempt.end, default=untreated)
        tried = verify(race, [best], supply, most=min(longest, MOST_STEPS // 2), held_out=held_out)
        # a network that fits its samples is not at fault where nothing carries over to others
        if tried.passed is not None or tried.fits_untreated:
            return SearchResult(racers, tried)
        entrants = [c for c in entrants if c not in targeted]
    if not _FLAT.isdisjoint(f.code for f in diagnosis.findings):
        deep = [c for c in entrants if c.targeted or c.recipe.level != "settings"]
        entrants = deep or entrants  # without a gradient no setting moves anything
    first = [c for c in entrants if c.targeted or c.recipe.level == "settings"]
    deeper = [c for c in entrants if c not in first]
    most = (race.budget - race.spent) * (_OF_SETTINGS if deeper else 1.0)
    racers += _enter(race, first, most)
    finalists = race.run(racers, most=most if deeper else None)
    half = min(longest, MOST_STEPS // 2 if deeper else MOST_STEPS - tried.steps)
    promising = any(r.attempt.promise >= FAILS or is_on_its_way(r.attempt) for r in finalists)
    if not deeper or promising:
        # weights or structure are touched only where a training has shown that settings do not do
        tried += verify(
            race, finalists, supply, most=half, held_out=held_out, has_more=bool(deeper)
        )
    if not deeper or tried.passed is not None:
        return SearchResult(racers, tried)
    later = _enter(race, deeper, race.budget - race.spent)
    finalists = race.run(later)
    left = min(longest, MOST_STEPS - tried.steps)
    tried += verify(race, finalists, supply, most=left, held_out=held_out)
    return SearchResult(racers + later, tried)


def is_on_its_way(attempt: Attempt) -> bool:
    """Whether it still falls from above to the constant baseline: what it will learn has yet to show."""
    quarter = max(1, len(attempt.losses) // 4)
    if not math.isfinite(attempt.end) or len(attempt.losses) < 2 * quarter:
        return False
    fall = fmean(attempt.losses[-2 * quarter : -quarter]) - fmean(attempt.losses[-quarter:])
    return 0 < attempt.end - attempt.constant < _QUARTERS * fall


def _enter(race: Race, entrants: list[Candidate], most: float) -> list[Search]:
    """Copies of as many of them as the steps are enough for, in their order."""
    costs = [step_cost(race.model, c.recipe) for c in entrants]
    return race.enter(entrants[: num_entrants(costs, most)])
