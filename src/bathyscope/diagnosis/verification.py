"""The training that shows whether a recipe helps: other batches and another seed than the race's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

from bathyscope.core.batch import Batch
from bathyscope.core.global_state import preserve_random_state, seed_generators
from bathyscope.diagnosis.candidates import Candidate
from bathyscope.diagnosis.expectation import (
    expected_end,
    is_clearly_better,
    is_on_its_way,
    seed_noise,
)
from bathyscope.diagnosis.race import LEARNED, PASSES, Attempt, Race, Search
from bathyscope.diagnosis.supply import Supply, generalizes
from bathyscope.remedies import Recipe

MOST_STEPS = 300
"""Of all verifying trainings together."""

NOISE_STEPS = 32
"""Steps that the untreated network takes again at least: as many as in the race, to compare two seeds."""

_CHECK = 10  # steps between looks at a verifying training
_SOON = 40  # steps before which no verifying training is ended for being good enough
SETTLES = 0.3
"""Of the constant baseline's loss: where this much is expected to go, nothing deeper need be touched."""

_SETTLES_SURELY = (
    0.15  # half of it where it is clearly better than an untreated network that stays finite
)

_GIVE_UP = {
    50: 0.02,
    100: 0.05,
    150: 0.2,
}  # learned less by then: the steps left are better spent on the next
_GIVE_UP_ANYWAY = 100  # before, what still falls from above to the constant baseline continues
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


@dataclass(slots=True)
class Verifier:
    """Trains finalists again, and the untreated network beside them, with batches the race has not used.

    Attributes:
        race: the one they come from; it makes the copies and counts their steps.
        supply: of batches.
        untreated: the copy of the race without any remedy.
        budget: steps that the user means to train for.
        held_out: batches that were kept back where there are few; what passes must answer them too.
        again: the untreated network with the other seed, once it was asked for.
        is_settled: whether a training ended as it was clearly better, though others waited.
        must_pass: whether settings that others wait behind are not settled before they pass.
        trained: the recipes' copies, in their order.
        taken: steps of all of them and of the untreated network.
    """

    race: Race
    supply: Supply
    untreated: Search
    budget: int
    held_out: Sequence[Batch] = ()
    again: Search | None = None
    is_settled: bool = False
    must_pass: bool = False
    trained: list[Search] = field(default_factory=list)
    taken: int = 0

    @property
    def left(self) -> float:
        """Own steps for races and recipes: without those in which the untreated network shows its noise."""
        again = 0 if self.again is None else len(self.again.losses)
        needed = 0 if self.untreated.has_diverged else max(0, NOISE_STEPS - again)
        return max(0.0, self.race.left - needed)

    def verify(
        self, finalists: Sequence[Search], *, most: float, has_more: bool = False
    ) -> Verification:
        """Train the finalists, one after the other, until one passes or the steps are used up.

        A training ends early where it has passed for sure, and where it is clearly better than the
        untreated network even if it learns nothing more.

        Args:
            finalists: best bet first.
            most: own steps of all these trainings together.
            has_more: others wait for the steps that are left, so that the last gives up early as well,
                and what ends early must have learned so much that the others need not be asked.
        """
        limit = self.race.spent + min(most, self.budget)
        attempts: list[Attempt] = []
        before = self.taken
        for number, finalist in enumerate(finalists):
            steps = int((limit - self.race.spent) / finalist.cost)
            if steps < 1:
                break
            search = self._copy(finalist)
            is_enough = self._train(
                search,
                steps,
                gives_up=has_more or number < len(finalists) - 1,
                is_enough=partial(self._is_enough, search, finalist, has_more),
            )
            self.trained.append(search)
            search.generalizes = generalizes(search, self.held_out, loss=self.race.loss)
            attempts.append(search.attempt)
            if search.attempt.passes or is_enough:
                self.is_settled = is_enough and has_more
                break
        return Verification(tuple(attempts), self.taken - before)

    def confirm(self, chosen: Attempt, noise: Callable[[Attempt], float]) -> Attempt:
        """Train the untreated network with the seed and for the steps of a recipe that is to be applied.

        It says how far two seeds of it are apart, and ends where the recipe is clearly better. Where it is
        not, both are trained on, as long as there are steps.

        Args:
            chosen: the verifying training of the recipe.
            noise: how far two seeds of the recipe are apart.

        Returns:
            The verifying training, as far as it has come.
        """
        search = next(s for s in self.trained if s.recipe == chosen.recipe)
        most = min(MOST_STEPS // 2, self.budget)
        steps = NOISE_STEPS
        while self._train_untreated(min(steps, len(search.losses), self._paid_untreated)):
            now = search.attempt
            if steps > self._paid_untreated or self._is_decided(now, noise(now)):
                break
            if steps >= len(now.losses):
                paid = len(now.losses) + int(self.race.left / (1 + search.cost))
                if min(paid, most) <= len(now.losses):
                    break
                self._train(search, min(paid, most, steps + NOISE_STEPS), is_enough=_never)
                search.generalizes = generalizes(search, self.held_out, loss=self.race.loss)
            steps += NOISE_STEPS
        return search.attempt

    @property
    def verification(self) -> Verification:
        """All trainings that were taken, as far as they have come."""
        again = [s for s in [self.again] if s is not None and all(s is not t for t in self.trained)]
        return Verification(tuple(s.attempt for s in (*self.trained, *again)), self.taken)

    @property
    def _paid_untreated(self) -> int:
        """Steps to which the untreated network may be trained again."""
        again = 0 if self.again is None else len(self.again.losses)
        return max(NOISE_STEPS, again + int(self.race.left))

    def _copy(self, finalist: Search) -> Search:
        if not finalist.recipe.steps and self.again is not None:
            return self.again
        candidate = Candidate(reseed(finalist.recipe, 1))
        [search] = self.race.enter([candidate], seed=self.race.seed + 1)
        if not finalist.recipe.steps:
            self.again = search
        return search

    def _train_untreated(self, steps: int) -> bool:
        """Train the untreated network to a step; whether it got there.

        Nothing is taken where it has diverged anyway.
        """
        if self.untreated.has_diverged or not self.untreated.losses:
            return False
        search = self._copy(self.untreated) if self.again is None else self.again
        if len(search.losses) < steps:
            self._train(search, steps, is_enough=_never)
        return len(search.losses) >= steps and not search.has_diverged

    def _is_enough(self, search: Search, first: Search, has_more: bool, now: Attempt) -> bool:
        """Whether a verifying training need not go on: the verdict is known, whatever comes."""
        if len(now.losses) < _SOON or not now.recipe.steps:
            return False
        noise = seed_noise([now, first.attempt])
        if not self._is_decided(now, noise):
            return False
        if has_more and self.must_pass and not now.passes:
            return False
        settles = SETTLES if self.untreated.has_diverged else _SETTLES_SURELY
        if has_more and expected_end(now, self.budget) > -settles:
            return False
        self._train_untreated(NOISE_STEPS)
        return (
            self._is_decided(now, noise)
            and generalizes(search, self.held_out, loss=self.race.loss) is not False
        )

    def _is_decided(self, treated: Attempt, noise: float) -> bool:
        bare = [s.attempt for s in (self.untreated, self.again) if s is not None]
        noise = max(noise, seed_noise(bare))
        return is_clearly_better(treated, bare, noise=noise, budget=self.budget)

    def _train(
        self,
        search: Search,
        most: int,
        *,
        is_enough: Callable[[Attempt], bool],
        gives_up: bool = False,
    ) -> bool:
        """Train a copy to a step; whether it ended before as it was good enough."""
        with preserve_random_state():
            seed_generators(self.race.seed + 1 + len(search.losses))
            while len(search.losses) < most:
                if self.race.notify is not None:
                    self.race.notify(f"verifying: {search.attempt.name}, step {len(search.losses)}")
                chunk = self.supply.take(min(_CHECK, most - len(search.losses)))
                taken = search.run(chunk, loss=self.race.loss)
                self.race.spent += taken * search.cost
                self.taken += taken
                now = search.attempt
                if search.has_diverged or now.is_sure or (gives_up and gives_up_now(now, most)):
                    break
                if is_enough(now):
                    return True
        return False


def _never(_: Attempt) -> bool:
    return False


def gives_up_now(attempt: Attempt, most: int) -> bool:
    """Whether the steps left are better spent on the next: too little is learned, or it falls short."""
    minimum = _GIVE_UP.get(len(attempt.losses))
    short = minimum is not None and attempt.learned < minimum
    if short and len(attempt.losses) < min(_GIVE_UP_ANYWAY, most):
        return not is_on_its_way(attempt)
    return short or falls_short(attempt, most)


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


def reseed(recipe: Recipe, by: int) -> Recipe:
    """The same recipe with other random numbers."""
    steps = [
        step.model_copy(update={"seed": step.seed + by}) if hasattr(step, "seed") else step
        for step in recipe.steps
    ]
    return Recipe(steps=tuple(steps))
