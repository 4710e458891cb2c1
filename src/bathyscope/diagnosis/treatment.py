"""What a treatment was: the diagnoses before and after, the recipe, what was tried, and how to undo it."""

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Severity
from bathyscope.diagnosis.diagnosis import Diagnosis
from bathyscope.diagnosis.difference import Difference
from bathyscope.diagnosis.helped import Judgement
from bathyscope.diagnosis.race import (
    Attempt,
)
from bathyscope.diagnosis.verification import Verification
from bathyscope.remedies import CHANGE_LEVELS, Change, ChangeLevel, DrawWeights, Recipe
from bathyscope.report.record import Judgment, Report
from bathyscope.report.reported import Reported

if TYPE_CHECKING:
    import pandas as pd


@dataclass(slots=True)
class Treatment(Reported):
    """What was tried, what was done, and what the measurements and the trainings say of it.

    Attributes:
        before, after: diagnoses of the model.
        recipe: what was applied, as data; None where the network was left as it was.
        attempts: the untreated copy first, then each recipe of the race.
        verification: the trainings with other batches and another seed that decide on `helped`.
        helped: whether the loss expected at the end of the budget is better than the untreated network's
            by more than two seeds differ by, and below the constant baseline's; with few batches samples
            that were kept back must be answered, too.
        optimizer: the one to continue with.
        spent: of the network's own steps, on the race and on measuring; verifying is counted apart.
        notes: what a reader must know.
        printed: what `code()` gives.
        judgement: what is expected at the end of the budget; None where nothing was applied.
        num_batches: different ones that could be seen, where they were few; None where none repeated.
        untreated_by: kind and learning rate of the optimizer with which the untreated network was trained.
    """

    before: Diagnosis
    after: Diagnosis
    recipe: Recipe | None
    attempts: tuple[Attempt, ...]
    verification: Verification
    helped: bool
    optimizer: torch.optim.Optimizer
    spent: int
    notes: tuple[str, ...] = ()
    change: Change | None = field(default=None, repr=False)
    num_batches: int | None = None
    judgement: Judgement | None = None
    printed: str = field(default="", repr=False)
    untreated_by: str = ""

    @property
    def applied(self) -> str | None:
        """The recipe in words."""
        return None if self.recipe is None else self.recipe.description

    @property
    def level(self) -> ChangeLevel | None:
        """The deepest level that was needed."""
        return None if self.recipe is None else self.recipe.level

    @property
    def by_level(self) -> dict[ChangeLevel, Attempt]:
        """Of each level that was tried, the recipe that learned most in the race."""
        tried = [a for a in self.attempts if a.recipe.steps]
        return {
            level: max(of_level, key=lambda a: a.learned)
            for level in CHANGE_LEVELS
            if (of_level := [a for a in tried if a.recipe.level == level])
        }

    @property
    def outcome(self) -> str:
        """What came of it, in a sentence, and a warning to those whose weights were pre-trained."""
        drawn = any(isinstance(s, DrawWeights) for s in (self.recipe or Recipe()).steps)
        note = ' Weights are re-initialized; allow="settings" keeps pre-trained ones.'
        return f"{self.result}{note if drawn else ''}"

    @property
    def result(self) -> str:
        """What came of it, in a sentence."""
        untreated = self.attempts[0]
        if self.recipe is None:
            if any(a.passes and not a.recipe.steps for a in self.verification.attempts):
                return "The network trains as it is; it was left so."
            fitting = next((a for a in self.verification.attempts if a.fits), None)
            if fitting is not None:
                how = f"with {fitting.name}" if fitting.recipe.steps else "as it is"
                return (
                    f"The network learns the samples that it is given {how}, though not to answer "
                    "those that were kept back; it was left as it was."
                )
            best = max(self.attempts, key=lambda a: a.learned)
            return (
                f"No recipe trains it; the best, {best.name}, ends at a loss of {best.end:.3g} "
                f"against {untreated.end:.3g} untreated{self._by}. "
                "The network is as it was."
            )
        last = self._treated
        accuracy = "" if last.accuracy is None else f", accuracy {last.accuracy:.0%}"
        seen = f"loss {last.end:.3g}{accuracy} after {len(last.losses)} steps"
        if self.helped and self.num_batches == 1:
            return (
                f"It helped on the one batch that could be seen: with another seed it trains ({seen}). "
                f"{self._expected} Other batches were not seen."
            )
        if self.helped:
            others = (
                "other batches" if self.num_batches is None else f"the {self.num_batches} batches"
            )
            how = "it trains" if last.passes else "it learns"
            return f"It helped: with {others} and another seed {how} ({seen}). {self._expected}"
        return (
            f"A training with it is better ({seen}), but not by enough to say that it helped. "
            f"{self._expected}"
        )

    @property
    def _by(self) -> str:
        return f" ({self.untreated_by})" if self.untreated_by else ""

    @property
    def _expected(self) -> str:
        """What is expected at the end of the budget, in a sentence."""
        one = self.judgement
        if one is None:
            return ""
        without = (
            f"{one.untreated:.3g} untreated{self._by}"
            if math.isfinite(one.untreated)
            else f"none untreated{self._by}, which diverges"
        )
        return (
            f"Expected after {one.budget} steps: a loss of {one.treated:.3g} with it, {without}; two "
            f"seeds were {one.noise:.2g} apart."
        )

    @property
    def lower_levels(self) -> str:
        """What less would have reached; empty where nothing less was tried."""
        if self.level is None:
            return ""
        best = {
            r: a
            for r, a in self.by_level.items()
            if CHANGE_LEVELS.index(r) < CHANGE_LEVELS.index(self.level)
        }
        verified = {a.recipe.level: a for a in self.verification.attempts if a.recipe.steps}
        result = [
            f"{level} alone ({a.name}) ended at {a.end:.3g} after {len(a.losses)} steps"
            + (
                " of a training"
                if level in verified
                else " of the race, and were not trained further"
            )
            for level, a in (best | {r: verified[r] for r in best if r in verified}).items()
        ]
        return f"Less was tried: {'; '.join(result)}." if result else ""

    @property
    def difference(self) -> Difference:
        """The diagnosis after against the one before."""
        return self.after.diff(self.before)

    @property
    def before_after(self) -> "pd.DataFrame":
        """The key numbers before and after, one row each."""
        import pandas as pd

        untreated, treated = self.attempts[0], self._treated
        steps = min(len(untreated.losses), len(treated.losses))
        rows = dict(self.difference.numbers) | {
            "problems found": (num_problems(self.before), num_problems(self.after)),
            "and that follow from them": (_num_effects(self.before), _num_effects(self.after)),
            f"loss at step {steps}": (untreated.losses[steps - 1], treated.losses[steps - 1]),
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["before", "after"])

    def code(self) -> str:
        """The change as PyTorch code over the names `model` and `optimizer`.

        Blocks get a changed `forward` where that is the same (`x + 0.1 * block(norm(x))`), else hooks.
        """
        return self.printed or (self.recipe or Recipe()).code()

    def report(self) -> Report:
        """The report after, with the one before beside it, the losses as curves and the recipe's code."""
        untreated, treated = (
            {"training loss": tuple(enumerate(a.losses))} for a in (self.attempts[0], self._treated)
        )
        result = [self.lower_levels, *self.notes]
        applied = self.outcome if self.recipe is None else f"Applied: {self.applied}."
        after = self.after.report()
        return replace(
            after,
            before=replace(self.before.report(), curves=untreated),
            curves=treated,
            notes=(*(t for t in result if t), *after.notes),
            code="" if self.recipe is None else self.code(),
            verdict=self._verdict(after),
            outcome=applied,
        )

    def _verdict(self, after: Report) -> Judgment:
        """What came of it: it decides, and not what is found at the new initialization."""
        if self.recipe is None:
            return after.verdict
        rest = " What is found in the treated network is below." if after.findings else ""
        return Judgment(
            level="clean" if self.helped else after.verdict.level, sentence=f"{self.outcome}{rest}"
        )

    def __repr__(self) -> str:
        """One line: the title and the outcome."""
        return f"<Treatment of {self.after.title}: {self.outcome}>"

    def summary(self) -> JsonObject:
        """The outcome in plain values, for JSON."""
        return {
            "applied": self.applied,
            "helped": self.helped,
            "level": self.level,
            "spent": self.spent,
            "verified": self.verification.steps,
            "expected": _finite_values(self.judgement),
            "outcome": self.outcome,
            "recipe": None if self.recipe is None else self.recipe.model_dump(mode="json"),
            "before": [f.code for f in self.before.findings],
            "after": [f.code for f in self.after.findings],
            "attempts": [
                {
                    "recipe": a.name,
                    "level": a.recipe.level if a.recipe.steps else None,
                    "steps": len(a.losses),
                    "loss": a.end if math.isfinite(a.end) else None,
                }
                for a in self.attempts
            ],
        }

    def undo(self) -> None:
        """Put the model and the optimizer back as they were before."""
        if self.change is not None:
            self.change.undo()
            self.change = None

    @property
    def _treated(self) -> Attempt:
        verified = [a for a in self.verification.attempts if a.recipe == self.recipe]
        return verified[0] if verified else self.attempts[0]


def _finite_values(judgement: Judgement | None) -> JsonObject | None:
    """A judgement for JSON, which has no infinity."""
    if judgement is None:
        return None
    return {
        "budget": judgement.budget,
        "loss": judgement.treated,
        "untreated": judgement.untreated if math.isfinite(judgement.untreated) else None,
        "noise": judgement.noise,
    }


def num_problems(diagnosis: Diagnosis) -> int:
    """How many of its root causes are problems."""
    return sum(root.severity is Severity.PROBLEM for root in diagnosis.roots)


def _num_effects(diagnosis: Diagnosis) -> int:
    """How many findings follow from its problems."""
    return sum(len(r.effects) for r in diagnosis.roots if r.severity is Severity.PROBLEM)
