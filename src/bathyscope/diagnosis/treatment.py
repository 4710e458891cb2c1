"""Treatment: try the remedies on copies, apply the best one, and show whether it helped."""

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bathyscope.core.arguments import check_count
from bathyscope.core.batch import Batch, check_batches, check_parameters
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import UsageError
from bathyscope.core.preserve import preserve_model
from bathyscope.core.records import Severity
from bathyscope.diagnosis.candidates import CANDIDATES, Candidate, Case
from bathyscope.diagnosis.diagnosis import Diagnosis
from bathyscope.diagnosis.difference import Difference
from bathyscope.diagnosis.examination import diagnose
from bathyscope.foresight import copy_training, train_over
from bathyscope.remedies import Change
from bathyscope.report import Report

if TYPE_CHECKING:
    import pandas as pd

# A short training counts as better when it ends at nine tenths of the untreated loss or less and has
# itself come down by a tenth: another seed moves the end of a run by a few per cent.
_BETTER = 0.9

# Where no remedy shows anything, so many of them are trained for so many times the steps.
_PROMISING, _LONGER = 3, 4


@dataclass(frozen=True, slots=True)
class Trial:
    """One remedy on a copy: the losses of the short training, and the findings left at the start."""

    name: str
    losses: tuple[float, ...]
    problems: int

    @property
    def end(self) -> float:
        """Mean loss over the last quarter of the training; infinite where it diverged."""
        tail = self.losses[-max(1, len(self.losses) // 4) :]
        return fmean(tail) if all(map(math.isfinite, self.losses)) else math.inf

    @property
    def trains(self) -> bool:
        """Whether the loss comes down by a tenth."""
        return self.end < _BETTER * self.losses[0]

    def trains_better_than(self, untreated: "Trial") -> bool:
        """Whether it ends well below the untreated copy and well below where it began."""
        return self.trains and self.end < _BETTER * untreated.end


@dataclass(slots=True)
class Treatment:
    """What was tried, what was done, and what the measurements and the trainings say of it.

    Attributes:
        before, after: diagnoses of the model.
        applied: the remedy's name; None where no remedy did better than nothing.
        trials: the untreated copy first, then each remedy that was tried.
        helped: whether a remedy trained better than none and, measured again, leaves fewer problems
            than before, or none.
    """

    before: Diagnosis
    after: Diagnosis
    applied: str | None
    trials: tuple[Trial, ...]
    helped: bool
    change: Change | None = field(default=None, repr=False)

    @property
    def difference(self) -> Difference:
        """The diagnosis after against the one before."""
        return self.after.diff(self.before)

    @property
    def before_after(self) -> "pd.DataFrame":
        """The key numbers before and after, one row each."""
        import pandas as pd

        untreated = self.trials[0]
        treated = next((t for t in self.trials if t.name == self.applied), untreated)
        rows = dict(self.difference.numbers) | {
            "problems found": (
                sum(f.severity is Severity.PROBLEM for f in self.before.findings),
                sum(f.severity is Severity.PROBLEM for f in self.after.findings),
            ),
            f"loss after {len(untreated.losses)} steps": (untreated.end, treated.end),
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["before", "after"])

    def report(self) -> Report:
        """The report after, with the one before beside it and the losses as curves."""
        curves = {t.name: tuple(enumerate(t.losses)) for t in self.trials if t.name in self._shown}
        return replace(self.after.report(), before=self.before.report(), curves=curves)

    def summary(self) -> dict[str, Any]:
        """The outcome in plain values, for JSON."""
        return {
            "applied": self.applied,
            "helped": self.helped,
            "before": [f.code for f in self.before.findings],
            "after": [f.code for f in self.after.findings],
            "trials": [
                {
                    "remedy": t.name,
                    "loss": t.end if math.isfinite(t.end) else None,
                    "problems": t.problems,
                }
                for t in self.trials
            ],
        }

    @property
    def _shown(self) -> tuple[str, ...]:
        return tuple(name for name in ("untreated", self.applied) if name is not None)

    def undo(self) -> None:
        """Put the model (and the optimizer's learning rates) back as they were before."""
        if self.change is not None:
            self.change.undo()
            self.change = None


def treat(
    model: nn.Module,
    diagnosis: Diagnosis,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    batches: Iterable[Batch] | None = None,
    steps: int = 40,
    tell: Callable[[str], None] | None = None,
) -> Treatment:
    """Apply the remedy that helps most, in place, undoable, measured again.

    Every remedy for the problems found is tried on a copy of the model: measured, and trained for a
    few steps beside an untreated copy. Where that copy does not train and none of them helps, the
    other remedies are tried too, and then the most promising ones for four times the steps. Of those
    that end well below the untreated copy, the one that leaves the fewest problems is applied to the
    model, and of several the one with the lowest loss; if there is none, the model is left as it is.

    Args:
        model: the diagnosed model; changed in place if a remedy helps.
        diagnosis: what `diagnose` said of it; it keeps the batch and the loss.
        optimizer: the one meant for training; a remedy may lower its learning rate. By default SGD
            at 0.1 with momentum 0.9 is tried with.
        batches: for the short trainings, a list or a loader, of which as many as the steps are
            taken, over and over if they are fewer; the diagnosis's own batch by default.
        steps: of each short training; at least one.
        tell: told what is tried, for a progress display.

    Returns:
        The treatment; `helped` is true only where the training shows it and fewer problems, or none,
        are left.

    Raises:
        UsageError: the diagnosis is of another model, a batch cannot be used, or a copy cannot be
            made.
    """
    check_parameters(model)
    if not isinstance(diagnosis, Diagnosis):
        raise UsageError(
            f"The diagnosis is what `diagnose` returned, but a {type(diagnosis).__name__} was given; "
            "diagnose the model first."
        )
    steps = check_count("steps", steps, least=1)
    root = unwrap(model)
    missing = [b.name for b in diagnosis.blocks if b.name not in dict(root.named_modules())]
    if missing:
        raise UsageError(
            f"The diagnosis is of another model: this one has no block {missing[0]!r}; "
            "diagnose this model first."
        )
    given = [diagnosis.setting.batch] if batches is None else batches
    course = list(islice(cycle(check_batches(root, given, most=steps)), steps))
    trying = _Trying(root, optimizer, diagnosis, course, tell)
    codes = {f.code for f in diagnosis.findings if f.severity is not Severity.NOTE}
    untreated = trying.nothing()
    named = trying.each((c for c in CANDIDATES if c.codes & codes), untreated)
    best = _best(named, untreated)
    trials = (untreated, *named)
    if best is None and not untreated.trains:
        others = trying.each((c for c in CANDIDATES if not c.codes & codes), untreated)
        best = _best(others, untreated)
        trials = (*trials, *others)
    if best is None and not untreated.trains:
        # a slow start shows nothing yet: the most promising get more time
        longer = replace(trying, course=course * _LONGER)
        patient = longer.nothing()
        again = longer.each(_promising(trials[1:]), patient)
        best = _best(again, patient)
        done = {t.name for t in (patient, *again)}
        trials = (patient, *again, *(t for t in trials if t.name not in done))
    if best is None:
        return Treatment(diagnosis, diagnosis, None, trials, helped=False)
    chosen = next(c for c in CANDIDATES if c.name == best.name)
    stepper = optimizer if optimizer is not None else copy_training(root, None)[1]
    change = chosen.apply(trying.case(root, stepper))
    after = _again(root, diagnosis, optimizer)
    # it trains, and fewer problems are left, or none as before
    helped = _num_problems(after) < max(1, _num_problems(diagnosis))
    return Treatment(diagnosis, after, best.name, trials, helped=helped, change=change)


def _promising(trials: Sequence[Trial]) -> list[Candidate]:
    """The remedies whose loss came down most, in proportion."""
    falling = sorted((t for t in trials if t.end < t.losses[0]), key=lambda t: t.end / t.losses[0])
    named = {c.name: c for c in CANDIDATES}
    return [named[t.name] for t in falling[:_PROMISING]]


def _best(trials: Sequence[Trial], untreated: Trial) -> Trial | None:
    """Of those that train better than the untreated copy: fewest problems first, then lowest loss."""
    # what starts near a constant output has about the loss of chance: to get there is no training
    starts = (t.losses[0] for t in (untreated, *trials))
    chance = min(filter(math.isfinite, starts), default=math.inf)
    helping = [t for t in trials if t.trains_better_than(untreated) and t.end < _BETTER * chance]
    return min(helping, key=lambda t: (t.problems, t.end), default=None)


@dataclass(frozen=True, slots=True)
class _Trying:
    """Remedies on copies of a model, each measured and trained over the same batches."""

    model: nn.Module
    optimizer: torch.optim.Optimizer | None
    diagnosis: Diagnosis
    course: Sequence[Batch]
    tell: Callable[[str], None] | None

    def case(self, model: nn.Module, stepper: torch.optim.Optimizer) -> Case:
        """What a remedy works on: the model, or a copy of it."""
        found = self.diagnosis
        return Case(
            model,
            stepper,
            found.setting.batch,
            found.blocks,
            found.findings,
            loss=found.setting.loss,
        )

    def nothing(self) -> Trial:
        """The copy as it is."""
        with preserve_model(self.model, copy_parameters=False):
            return self._trained("untreated", *copy_training(self.model, self.optimizer))

    def each(self, candidates: Iterable[Candidate], untreated: Trial) -> list[Trial]:
        """A trial of every remedy that applies."""
        trials = []
        for candidate in candidates:
            with preserve_model(self.model, copy_parameters=False):
                twin, stepper = copy_training(self.model, self.optimizer)
                if candidate.apply(self.case(twin, stepper)) is None:
                    continue
                trial = self._trained(candidate.name, twin, stepper)
                if candidate.solves:
                    trial = replace(trial, losses=(untreated.losses[0], *trial.losses))
                trials.append(trial)
        return trials

    def _trained(self, name: str, twin: nn.Module, stepper: torch.optim.Optimizer) -> Trial:
        if self.tell is not None:
            self.tell(name)
        found = _again(twin, self.diagnosis, stepper)
        losses = train_over(twin, stepper, self.course, loss=self.diagnosis.setting.loss)
        return Trial(name, tuple(losses), _num_problems(found))


def _again(
    model: nn.Module, diagnosis: Diagnosis, optimizer: torch.optim.Optimizer | None
) -> Diagnosis:
    options = copy.copy(dict(diagnosis.setting.options))
    return diagnose(
        model,
        diagnosis.setting.batch,
        loss=diagnosis.setting.loss,
        optimizer=optimizer,
        title=diagnosis.title,
        **options,
    )


def _num_problems(diagnosis: Diagnosis) -> int:
    return sum(f.severity is Severity.PROBLEM for f in diagnosis.findings)
