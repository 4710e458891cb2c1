"""The training that shows whether a recipe helps: other batches and another seed than the race's."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from bathyscope.core.preserve import seed_generators
from bathyscope.diagnosis.candidates import Candidate
from bathyscope.diagnosis.race import LEARNT, PASSES, Attempt, Race, Racer, Supply, reseed

MOST_STEPS = 300
"""Of all verifying trainings together."""

_CHECK = 25  # steps between looks at a verifying training
_GIVE_UP = {100: 0.05, 150: 0.2}  # learnt less by then: the steps left are better spent on the next
_HALF_WAY, _PACE = MOST_STEPS // 2, 50  # where it is asked whether it will pass; steps of its pace


@dataclass(frozen=True, slots=True)
class Verification:
    """What the verifying trainings showed: of each recipe tried, in order, and the steps they took."""

    attempts: tuple[Attempt, ...]
    steps: int

    def __add__(self, later: "Verification") -> "Verification":
        """These trainings and later ones."""
        return Verification(self.attempts + later.attempts, self.steps + later.steps)

    @property
    def passed(self) -> Attempt | None:
        """The one that passed, if any."""
        return next((a for a in self.attempts if a.passes), None)


def verify(
    race: Race, finalists: Sequence[Racer], supply: Supply, *, most: int = MOST_STEPS
) -> Verification:
    """Train the finalists anew, one after the other, until one passes or the steps are used up.

    Args:
        race: the one they come from; it makes the copies.
        finalists: best bet first.
        supply: of batches that the race has not used.
        most: steps of all these trainings together.
    """
    taken = 0
    attempts: list[Attempt] = []
    for number, finalist in enumerate(finalists):
        if taken >= most:
            break
        [racer] = race.enter([Candidate(reseed(finalist.recipe, 1))], seed=race.seed + 1)
        _train(race, racer, supply, most=most - taken, gives_up=number < len(finalists) - 1)
        taken += len(racer.losses)
        attempts.append(racer.attempt)
        if racer.attempt.passes:
            break
    return Verification(tuple(attempts), taken)


def _train(race: Race, racer: Racer, supply: Supply, *, most: int, gives_up: bool) -> None:
    with torch.random.fork_rng(devices=[]):
        seed_generators(race.seed + 1)
        while len(racer.losses) < most:
            if race.tell is not None:
                race.tell(f"verifying: {racer.attempt.name}, step {len(racer.losses)}")
            chunk = supply.take(min(_CHECK, most - len(racer.losses)))
            racer.run(chunk, loss=race.loss)
            least = _GIVE_UP.get(len(racer.losses))
            short = least is not None and racer.attempt.learnt < least
            given_up = gives_up and (short or falls_short(racer.attempt, most))
            if racer.has_diverged or racer.attempt.is_sure or given_up:
                break


def falls_short(attempt: Attempt, most: int) -> bool:
    """Whether a training that has learnt would not pass even if it kept its pace: curves flatten.

    Asked half-way alone, over so many steps that the noise of the batches is small beside the pace.

    Args:
        attempt: as it stands.
        most: steps that it may take in all.
    """
    accuracies = attempt.accuracies
    if len(accuracies) != _HALF_WAY or attempt.learnt < LEARNT:
        return False
    late, before = fmean(accuracies[-_PACE:]), fmean(accuracies[-2 * _PACE : -_PACE])
    middle = len(accuracies) - _PACE / 2  # where the mean of the last steps stands
    return late + (late - before) / _PACE * (most - middle) < PASSES
