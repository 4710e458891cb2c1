"""The race: recipes on copies of a network, halved again and again, judged by how much they learn.

A copy has learned what its loss lies below that of the constant baseline: at a fraction of one half the
loss is half of it. `Attempt.promise` is the one place where a copy is judged while the race is on.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.errors import UsageError
from bathyscope.core.global_state import preserve_random_state, seed_generators
from bathyscope.core.losses import lowest_loss
from bathyscope.core.nested import class_axis
from bathyscope.core.preserve import preserve_model
from bathyscope.core.stepping import copy_training, fuse_, train_steps
from bathyscope.diagnosis.candidates import Candidate
from bathyscope.foresight.extrapolation import loss_scale
from bathyscope.foresight.goal import targets_of
from bathyscope.remedies import CHANGE_LEVELS, Recipe

ROUNDS = (8, 16, 32, 64)
"""Steps after which the field is halved; the last are the most that the finalists take."""

SMALLEST_FINAL = 48
"""Steps that the finalists take at least: this many are set aside before the race begins."""

FINALISTS = 2
ADDED = 2 / 3
"""What a shortcut or a norm costs of what the average layer of the network does: of three small networks,
where Python's own time is most of it, about 0.6 was seen in five of six runs and 1.1 in one."""

PASSES = 0.8
"""Accuracy on training batches at which a training has passed."""

LEARNED = 0.5
"""Fraction of the constant baseline's loss that must be gone where there is no accuracy; enough to win."""

_SOME_LEARNED = 0.3  # fraction of the constant baseline's loss that is gone beside an accuracy
_SURE_ACCURACY, _SURE_FRACTION = 0.92, 0.8  # a training that ends early must be this far
_KEEPS_UP = 0.85  # of what the best of its level has learned
_ANYTHING = 0.02  # promise by the second round below which nothing has been learned
_WINDOW = 8  # batches over which a training is judged


@dataclass(frozen=True, slots=True)
class Attempt:
    """One recipe on a copy: the loss before each step, and what it is measured against.

    Attributes:
        recipe: without steps for the untreated copy.
        losses: before each step; it ends where one is non-finite, or no step could be taken.
        constant: loss of the best answer that does not look at the inputs; of either sign.
        accuracies: of each step's batch; empty where the targets are not labels.
        generalizes: whether samples that it was not trained on are answered better than by a constant;
            None where there were none to ask.
        lowest: value that the loss can have, where it is known.
    """

    recipe: Recipe
    losses: tuple[float, ...]
    constant: float
    accuracies: tuple[float, ...] = ()
    generalizes: bool | None = None
    lowest: float = -math.inf

    @property
    def name(self) -> str:
        """The recipe in words."""
        return self.recipe.description if self.recipe.steps else "untreated"

    @property
    def end(self) -> float:
        """Mean loss over the last eight steps, or the last quarter of fewer; infinite where it diverged."""
        tail = self.losses[-min(_WINDOW, max(1, len(self.losses) // 4)) :]
        return fmean(tail) if tail and all(map(math.isfinite, self.losses)) else math.inf

    @property
    def scale(self) -> float:
        """The size of a loss of this task."""
        return loss_scale(self.constant, self.losses[0] if self.losses else self.constant) or 1.0

    @property
    def learned(self) -> float:
        """Fraction of the constant baseline's loss that is gone at the end; below zero where it is worse."""
        return (self.constant - self.end) / self.scale

    @property
    def promise(self) -> float:
        """What it has learned, and once more what it learned lately: a late start is not yet a bad one.

        Falling from above to the best constant is not learning: it counts from a quarter above it on.
        """
        quarter = max(1, len(self.losses) // 4)
        if not math.isfinite(self.end) or len(self.losses) < 2 * quarter:
            return self.learned
        most = self.constant + 0.25 * self.scale
        capped = [min(loss, most) for loss in self.losses]
        fall = fmean(capped[-2 * quarter : -quarter]) - fmean(capped[-quarter:])
        return self.learned + fall / self.scale

    @property
    def accuracy(self) -> float | None:
        """Mean accuracy over the last eight steps' batches, before each step."""
        return fmean(self.accuracies[-_WINDOW:]) if self.accuracies else None

    @property
    def passes(self) -> bool:
        """Whether it has learned more than its samples by heart."""
        return self.fits and self.generalizes is not False

    @property
    def fits(self) -> bool:
        """Whether it has learned what it was given: 80 % accuracy, or half the constant baseline's loss.

        80 % may be a constant's own answer where one class is that frequent: some of the loss must be
        gone too.
        """
        if not all(map(math.isfinite, self.losses)):
            return False
        if self.accuracy is None:
            return self.learned >= LEARNED
        return self.accuracy >= PASSES and self.learned >= _SOME_LEARNED

    @property
    def is_sure(self) -> bool:
        """Whether it is so far beyond passing that the rest of a training need not be seen."""
        if len(self.losses) < 5 * _WINDOW or not self.passes:
            return False
        if self.accuracy is None:
            return self.learned >= _SURE_FRACTION
        return self.accuracy >= _SURE_ACCURACY


@dataclass(slots=True)
class Search:
    """A copy of the network under a recipe, and how far it has come."""

    recipe: Recipe
    model: nn.Module
    optimizer: torch.optim.Optimizer
    constant: float
    cost: float = 1.0
    surest: bool = False
    targeted: bool = False
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    generalizes: bool | None = None
    lowest: float = -math.inf

    @property
    def attempt(self) -> Attempt:
        """As it stands."""
        return Attempt(
            self.recipe,
            tuple(self.losses),
            self.constant,
            accuracies=tuple(self.accuracies),
            generalizes=self.generalizes,
            lowest=self.lowest,
        )

    @property
    def rank(self) -> tuple[int, int]:
        """How much it changes: nothing, then by level, then by the number of steps."""
        steps = len(self.recipe.steps)
        return (CHANGE_LEVELS.index(self.recipe.level) + 1 if steps else 0), steps

    @property
    def has_diverged(self) -> bool:
        """Whether a loss was non-finite."""
        return bool(self.losses) and not math.isfinite(self.losses[-1])

    def run(self, batches: Iterable[Batch], *, loss: LossFn) -> int:
        """Take one step a batch; how many were taken."""
        taken = 0
        if self.has_diverged:
            return taken
        for step in train_steps(self.model, self.optimizer, batches, loss=loss):
            accuracy = label_accuracy(step.output, step.batch[1])
            step.take()
            taken += 1
            self.losses.append(step.loss)
            if accuracy is not None:
                self.accuracies.append(accuracy)
        return taken


def label_accuracy(output: object, targets: object) -> float | None:
    """The fraction of labels that an output names; None where the targets are not labels of its classes."""
    if not isinstance(output, Tensor) or not isinstance(targets, Tensor):
        return None
    if targets.is_floating_point() or output.ndim != targets.ndim + 1:
        return None
    axis = class_axis(output, targets)
    known = int((targets >= 0).sum())
    if output.shape[axis] < 2 or not known:
        return None
    return int((output.argmax(axis) == targets).sum()) / known  # a label below zero is never named


@dataclass(slots=True)
class Race:
    """Copies of one network over the same batches.

    Attributes:
        model, optimizer: as they were given; they stay as they are.
        course: the batches, as many as the finalists take steps.
        loss: of an output and targets.
        constant: loss of the constant baseline on these batches.
        budget: own steps that all copies together may cost.
        seed: of everything that is random in it.
        spent: what the copies have cost up to now, in own steps.
        notify: called with what is going on.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    course: Sequence[Batch]
    loss: LossFn
    constant: float
    budget: float = math.inf
    seed: int = 0
    spent: float = 0.0
    notify: Callable[[str], None] | None = None

    def enter(self, candidates: Iterable[Candidate], *, seed: int | None = None) -> list[Search]:
        """A copy under each recipe; one with a step that does not fit is left out."""
        with preserve_model(self.model, copy_parameters=False):
            copies = [self._copy(c, self.seed if seed is None else seed) for c in candidates]
        return [search for search in copies if search is not None]

    def _copy(self, candidate: Candidate, seed: int) -> Search | None:
        with preserve_random_state():
            seed_generators(seed)
            twin, stepper = copy_training(self.model, self.optimizer)
            twin.train()
            try:
                used = candidate.recipe.apply_(twin, stepper).optimizer
            except UsageError:
                return None
        assert used is not None
        fuse_(twin, used)
        return Search(
            candidate.recipe,
            twin,
            used,
            self.constant,
            cost=step_cost(self.model, candidate.recipe),
            surest=candidate.surest,
            targeted=candidate.targeted,
            lowest=lowest_loss(self.loss, targets_of(self.course[0])),
        )

    def advance(self, search: Search, steps: int) -> None:
        """Let a copy run until it has taken this many steps; a recipe with which none can be taken is out.

        Raises:
            UsageError: the untreated copy cannot take a step.
        """
        if self.notify is not None:
            self.notify(f"{search.attempt.name} to step {steps} ({self.spent:.0f} steps spent)")
        with preserve_random_state():
            seed_generators(self.seed + len(search.losses))
            try:
                taken = search.run(self.course[len(search.losses) : steps], loss=self.loss)
            except UsageError:  # as Adam on the sparse gradients of an embedding
                if not search.recipe.steps:
                    raise
                search.losses.append(math.inf)
                taken = 1
        self.spent += taken * search.cost

    def run(self, racers: list[Search], *, most: float | None = None) -> list[Search]:
        """Successive halving; the finalists, best bet first. They run on for as long as is paid for.

        Args:
            racers: the field.
            most: own steps that it may spend, of those that are left; all of them by default. With it
                a field of which nothing has learned anything by the second round ends there, so that
                others have the steps.
        """
        limit = self.budget if most is None else min(self.budget, self.spent + most)
        alive = racers
        for steps, left in zip(ROUNDS, numbers_alive(len(racers))[1:], strict=False):
            for search in alive:
                self.advance(search, steps)
            alive = survivors(alive, left)
            if most is not None and steps == ROUNDS[1] and not any(map(_stirs, alive)):
                return sorted(alive, key=lambda r: bet(r, alive))
        paid = ROUNDS[-2] + int(max(0, limit - self.spent) / sum(r.cost for r in alive))
        for search in alive:
            self.advance(search, max(ROUNDS[-2], min(paid, ROUNDS[-1])))
        return sorted(alive, key=lambda r: bet(r, alive))


def _stirs(search: Search) -> bool:
    """Whether it has learned anything at all."""
    return search.attempt.promise >= _ANYTHING


def survivors(racers: Sequence[Search], count: int) -> list[Search]:
    """Those that learned most; the surest stays, and so does the smallest change that keeps up."""
    order = sorted(racers, key=lambda r: -r.attempt.promise)
    kept = order[:count]
    best = order[0].attempt.promise
    wanted = [r for r in racers if r.surest and not r.has_diverged]
    keeping_up = [r for r in racers if r.attempt.promise >= max(0.1, 0.5 * best)]
    wanted += sorted(keeping_up, key=lambda r: (not r.targeted, r.rank))[:1]
    for search in wanted:
        if search not in kept:
            spare = [r for r in kept if r not in wanted]
            if spare:
                kept.remove(spare[-1])
                kept.append(search)
    return kept


def bet(search: Search, field: Sequence[Search] = ()) -> tuple[int, int, int, int, float]:
    """Order of the finalists: those that will pass by how little they change, then by what they learned.

    What answers a finding is the smallest change, whatever its level. On one level, what has learned
    far less than another comes after it, however few its steps are.

    Args:
        search: the finalist.
        field: all of them.
    """
    learned = search.attempt.learned
    will_pass = learned >= LEARNED or (learned >= 0.8 * LEARNED and search.attempt.passes)
    if not will_pass:
        return 1, 0, 0, 0, -learned
    level, steps = search.rank
    if search.targeted:
        return 0, 0, 0, steps, -learned
    alike = [r.attempt.learned for r in field if r.rank[0] == level]
    is_behind = learned < _KEEPS_UP * max(alike, default=learned)
    return 0, level + 1, int(is_behind), steps, -learned


def step_cost(model: nn.Module, recipe: Recipe) -> float:
    """Own steps of a network that one step of a copy under a recipe costs, as it is counted.

    It is counted and not measured, so that the same race is run wherever it is run.
    """
    layers = sum(next(m.children(), None) is None for m in model.modules())
    return 1 + ADDED * sum(step.num_added for step in recipe.steps) / layers


def num_entrants(costs: Sequence[float], budget: float) -> int:
    """How many of the candidates can start, in their order, whoever survives; at least two.

    Args:
        costs: of a step of each of them.
        budget: of all their steps together.

    Examples:
        >>> num_entrants([1.0] * 20, 300), num_entrants([2.0] * 20, 300)
        (16, 6)
    """
    fits = [n for n in range(2, len(costs) + 1) if search_cost(costs[:n]) <= budget]
    return max(fits, default=min(2, len(costs)))


def search_cost(costs: Sequence[float]) -> float:
    """What a race costs at most: the dearest survive, and the finalists take the fewest steps."""
    dearest = sorted(costs, reverse=True)
    total, done = 0.0, 0
    for steps, alive in zip((*ROUNDS[:-1], SMALLEST_FINAL), numbers_alive(len(costs)), strict=True):
        total += sum(dearest[:alive]) * (steps - done)
        done = steps
    return total


def numbers_alive(entrants: int) -> list[int]:
    """How many run in each round.

    Examples:
        >>> numbers_alive(13)
        [13, 7, 4, 2]
    """
    alive = [entrants]
    while len(alive) < len(ROUNDS) - 1:
        alive.append(alive[-1] // 2 + alive[-1] % 2)
    return [*alive, min(alive[-1], FINALISTS)]


def reseed(recipe: Recipe, by: int) -> Recipe:
    """The same recipe with other random numbers."""
    steps = [
        step.model_copy(update={"seed": step.seed + by}) if hasattr(step, "seed") else step
        for step in recipe.steps
    ]
    return Recipe(steps=tuple(steps))
