"""The search for a recipe: settings first; weights, activations and structure where settings do not do."""

from dataclasses import dataclass

from bathyscope.diagnosis.candidates import Candidate, candidates
from bathyscope.diagnosis.diagnosis import Diagnosis
from bathyscope.diagnosis.expectation import FAILS, expected_end, is_on_its_way
from bathyscope.diagnosis.race import LEARNED, ROUNDS, Race, Search, num_entrants, step_cost
from bathyscope.diagnosis.supply import Supply
from bathyscope.diagnosis.treatment import num_problems
from bathyscope.diagnosis.verification import (
    MOST_STEPS,
    SETTLES,
    Verification,
    Verifier,
)
from bathyscope.remedies import ChangeLevel, Recipe
from bathyscope.rules.targeted import end_repairs
from bathyscope.rules.targeted.context import Context

_TRIAL = 32  # steps after which the untreated copy may be known to train
_MOST_CANDIDATES = 40  # more than any budget lets start
_GAIN = 0.1  # of the untreated loss: another seed moves the end of a run by a few per cent
_FLAT = frozenset({"flat-start", "flat-to-second-order", "zero-gradient"})
_OF_SETTINGS = 0.22  # fraction of the steps left that settings may take where more is allowed
_FIRST_LOOK = 75  # steps of the training that shows whether settings do, where more is allowed
_OF_LAST = 0.35  # fraction of the steps left that the last field may take; the others verify


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The untreated copy and all recipes that raced, and the trainings that verify the best of them."""

    racers: list[Search]
    verification: Verification
    verifier: Verifier


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
    racers, tried = [untreated], Verification((), 0)

    verifier = Verifier(race, supply, untreated, budget, supply.reserve())
    if untreated.attempt.learned >= LEARNED:
        # what is targeted at a problem may still do much better
        targeted = [c for c in entrants if c.targeted and num_problems(diagnosis)]
        racers += race.enter(targeted)
        best = _best_answer(race, untreated, racers[1:])
        tried = verifier.verify([best], most=min(MOST_STEPS // 2, verifier.left))
        # a network that fits its samples is not at fault where nothing carries over to others
        if tried.passed is not None or tried.fits_untreated:
            return SearchResult(racers, tried, verifier)
        entrants = [c for c in entrants if c not in targeted]
    if not _FLAT.isdisjoint(f.code for f in diagnosis.findings):
        deep = [c for c in entrants if c.targeted or c.recipe.level != "settings"]
        entrants = deep or entrants  # without a gradient no setting moves anything
    first = [c for c in entrants if c.targeted or c.recipe.level == "settings"]
    deeper = [c for c in entrants if c not in first]
    most = race.left * (_OF_SETTINGS if deeper else _OF_LAST)
    limit = race.spent + most
    racers += _enter(race, first, most)
    finalists = race.run(racers, limit=limit, may_end=bool(deeper))
    # what the ends of the network ask for is no matter of settings: these must pass, and have the steps to
    verifier.must_pass = bool(deeper) and bool(end_repairs(context))
    longest = _FIRST_LOOK if deeper else MOST_STEPS - tried.steps
    longest = MOST_STEPS // 2 if verifier.must_pass else longest
    promising = any(r.attempt.promise >= FAILS or is_on_its_way(r.attempt) for r in finalists)
    if not deeper or promising:
        # weights or structure are touched only where a training has shown that settings do not do
        some = [_best_bet(finalists)] if deeper else finalists
        most = min(longest, verifier.left)
        tried += verifier.verify(some, most=most, has_more=bool(deeper))
    settled = verifier.is_settled or (not verifier.must_pass and _settled(tried, budget))
    if not deeper or tried.passed is not None or settled:
        return SearchResult(racers, tried, verifier)
    most = verifier.left * _OF_LAST
    limit = race.spent + most
    later = _enter(race, deeper, most)
    finalists = race.run(later, limit=limit)
    most = min(MOST_STEPS - tried.steps, verifier.left)
    tried += verifier.verify(finalists, most=most)
    return SearchResult(racers + later, tried, verifier)


def _best_answer(race: Race, untreated: Search, answers: list[Search]) -> Search:
    """Of the answers to a finding that which is clearly better after some steps; else the untreated copy."""
    for search in answers:
        race.advance(search, _TRIAL)
    enough = untreated.attempt.end - _GAIN * abs(untreated.attempt.end)
    better = [r for r in answers if r.attempt.end < enough]
    return min(better, key=lambda r: r.attempt.end, default=untreated)


def _best_bet(finalists: list[Search]) -> Search:
    """The first, but the untreated copy only where it has learned: others wait for the steps."""
    first = finalists[0]
    if first.recipe.steps or first.attempt.learned >= FAILS:
        return first
    return next((r for r in finalists if r.recipe.steps), first)


def _settled(tried: Verification, budget: int) -> bool:
    """Whether settings are expected to gain so much that nothing deeper need be touched."""
    treated = [a for a in tried.attempts if a.recipe.steps and a.generalizes is not False]
    return any(expected_end(attempt, budget) <= -SETTLES for attempt in treated)


def _enter(race: Race, entrants: list[Candidate], most: float) -> list[Search]:
    """As many of them as the steps are enough for, in their order, after the first round.

    Where some diverge, or cannot take a step, others enter for the steps that these have left.
    """
    costs = [step_cost(race.model, c.recipe) for c in entrants]
    count = num_entrants(costs, most)
    limit = race.spent + ROUNDS[0] * sum(costs[:count])
    result = race.enter(entrants[:count])
    for search in result:
        race.advance(search, ROUNDS[0])
    for entrant, cost in zip(entrants[count:], costs[count:], strict=True):
        if race.spent + ROUNDS[0] * cost > limit:
            break
        for search in race.enter([entrant]):
            race.advance(search, ROUNDS[0])
            result.append(search)
    return result
