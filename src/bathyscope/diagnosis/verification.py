"""The training that shows whether a recipe helps: other batches and another seed than the race's."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from bathyscope.core.batch import Batch
from bathyscope.core.global_state import preserve_random_state, seed_generators
from bathyscope.diagnosis.candidates import Candidate
from bathyscope.diagnosis.race import LEARNED, PASSES, Attempt, Race, Search, reseed
from bathyscope.diagnosis.supply import Supply, generalizes
from bathyscope.remedies import Recipe

MOST_STEPS = 300
"""Of all verifying trainings together."""

_CHECK = 25  # steps between looks at a verifying training
_GIVE_UP = {
    100: 0.05,
    150: 0.2,
}  # learned less by then: the steps left are better spent on the next
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

    @property
    def fits_untreated(self) -> bool:
        """Whether the network learns the samples it is given without any remedy."""
        return any(a.fits and not a.recipe.steps for a in self.attempts)


def verify(
    race: Race,
    finalists: Sequence[Search],
    supply: Supply,
    *,
    most: int = MOST_STEPS,
    held_out: Sequence[Batch] = (),
    has_more: bool = False,
) -> Verification:
    """Train the finalists again, one after the other, until one passes or the steps are used up.

    Args:
        race: the one they come from; it makes the copies.
        finalists: best bet first.
        supply: of batches that the race has not used.
        most: steps of all these trainings together.
        held_out: batches that were kept back where there are few; what passes must answer them too.
        has_more: others wait for the steps that are left, so that the last gives up early as well.
    """
    taken = 0
    attempts: list[Attempt] = []
    for number, finalist in enumerate(finalists):
        if taken >= most:
            break
        [search] = race.enter([Candidate(reseed(finalist.recipe, 1))], seed=race.seed + 1)
        _train(
            race,
            search,
            supply,
            most=most - taken,
            gives_up=has_more or number < len(finalists) - 1,
        )
        taken += len(search.losses)
        search.generalizes = generalizes(search, held_out, loss=race.loss)
        attempts.append(search.attempt)
        if search.attempt.passes:
            break
    return Verification(tuple(attempts), taken)


def verify_untreated(
    race: Race, supply: Supply, untreated: Search, *, like: Attempt
) -> Verification:
    """Train the untreated network with the seed and for the steps of a recipe that is to be applied.

    It says how far two seeds of it are apart. Nothing is taken where it has diverged anyway, or was
    trained with that seed already.
    """
    if untreated.has_diverged or not untreated.losses:
        return Verification((), 0)
    [search] = race.enter([Candidate(Recipe())], seed=race.seed + 1)
    _train(race, search, supply, most=min(len(like.losses), MOST_STEPS // 2), gives_up=False)
    return Verification((search.attempt,), len(search.losses))


def _train(race: Race, search: Search, supply: Supply, *, most: int, gives_up: bool) -> None:
    with preserve_random_state():
        seed_generators(race.seed + 1)
        while len(search.losses) < most:
            if race.notify is not None:
                race.notify(f"verifying: {search.attempt.name}, step {len(search.losses)}")
            chunk = supply.take(min(_CHECK, most - len(search.losses)))
            search.run(chunk, loss=race.loss)
            minimum = _GIVE_UP.get(len(search.losses))
            short = minimum is not None and search.attempt.learned < minimum
            given_up = gives_up and (short or falls_short(search.attempt, most))
            if search.has_diverged or search.attempt.is_sure or given_up:
                break


def falls_short(attempt: Attempt, most: int) -> bool:
    """Whether a training that has learned would not pass even if it kept its pace: curves flatten.

    Asked half-way alone, over this many steps that the noise of the batches is small beside the pace.

    Args:
        attempt: as it stands.
        most: steps that it may take in all.
    """
    accuracies = attempt.accuracies
    if len(accuracies) != _HALF_WAY or attempt.learned < LEARNED:
        return False
    late, before = fmean(accuracies[-_PACE:]), fmean(accuracies[-2 * _PACE : -_PACE])
    middle = len(accuracies) - _PACE / 2  # where the mean of the last steps stands
    return late + (late - before) / _PACE * (most - middle) < PASSES
