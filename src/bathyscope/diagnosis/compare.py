"""Several networks side by side: diagnosed, trained for some steps, diagnosed again."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn, check_batches, check_parameters
from bathyscope.core.errors import UsageError
from bathyscope.core.nested import class_axis
from bathyscope.core.preserve import preserve_model
from bathyscope.core.stepping import copy_training, train_steps
from bathyscope.diagnosis.diagnose import diagnose
from bathyscope.diagnosis.diagnosis import Diagnosis
from bathyscope.diagnosis.treat import SMALLEST_SPEND, treat
from bathyscope.diagnosis.treatment import Treatment
from bathyscope.foresight import Forecast, forecast
from bathyscope.foresight.model import BUDGETS, FAILED, TRAINED
from bathyscope.report.record import Report

Prepare = Callable[[nn.Module, torch.optim.Optimizer], object]


@dataclass(frozen=True, slots=True)
class Contender:
    """A network to compare: its name, the optimizer meant for it, and what to switch on for training."""

    name: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    prepare: Prepare | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Course:
    """One contender's way: diagnosed at the start and at the end, with the curve between them.

    The forecast was made before the training, of the network without what `prepare` switches on.
    A network that failed may have been treated, on another copy of how it was at the start.
    """

    start: Diagnosis
    end: Diagnosis
    losses: tuple[float, ...]
    accuracy: float | None
    forecast: Forecast
    treatment: Treatment | None = None

    def __repr__(self) -> str:
        """One line: the network and how its training ended."""
        return f"<Course of {self.start.title}: {self.outcome}>"

    @property
    def has_failed(self) -> bool:
        """Whether less than half of the labels are right at the end, or the loss is non-finite."""
        return not math.isfinite(self.losses[-1]) or (
            self.accuracy is not None and self.accuracy < FAILED
        )

    @property
    def came_true(self) -> str:
        """Whether the forecast did: `yes`, `no`, `not yet` before its budget is spent, or `open`."""
        verdict, right = self.forecast.verdict, self.accuracy
        if verdict == "undecided" or right is None:
            return "open"
        if (right >= TRAINED) if verdict == "trains" else (right < FAILED):
            return "yes"
        return "not yet" if len(self.losses) < self.forecast.budget else "no"

    @property
    def outcome(self) -> str:
        """How the training ended, and what that says of the forecast."""
        first, last = self.losses[0], self.losses[-1]
        right = "" if self.accuracy is None else f", accuracy {self.accuracy:.0%}"
        result = {
            "yes": " The forecast came true.",
            "no": " The forecast did not come true.",
            "not yet": f" The forecast is for {self.forecast.budget} steps: not yet.",
        }.get(self.came_true, "")
        return f"After {len(self.losses)} steps: loss {first:.3g} → {last:.3g}{right}.{result}"

    def report(self) -> Report:
        """The end, with the start as an earlier stage and the loss as a curve."""
        stages = (
            ("at the start", self.start.report()),
            (f"after {len(self.losses)} steps", self.end.report()),
        )
        return replace(
            self.end.report(),
            stages=stages,
            curves={"training loss": tuple(enumerate(self.losses))},
            forecast=self.forecast,
            outcome=self.outcome,
        )

    def treated_report(self) -> Report | None:
        """The treated network as one more to compare; None where nothing was changed."""
        done = self.treatment
        if done is None or done.recipe is None:
            return None
        text = done.recipe.description
        verified = [a for a in done.verification.attempts if a.recipe == done.recipe]
        return replace(
            done.after.report(),
            title=f"{self.start.title}, treated",
            curves={"training loss": tuple(enumerate(verified[0].losses))} if verified else {},
            outcome=f"{text[:1].upper()}{text[1:]}. {done.result}",
            code=done.code(),
        )


def compare(
    contenders: Sequence[Contender],
    batches: Iterable[Batch],
    *,
    loss: LossFn,
    treat_with: Iterable[Batch] | None = None,
    spend: int = SMALLEST_SPEND,
    notify: Callable[[str], None] | None = None,
) -> list[Course]:
    """Diagnose every network, train a copy of it on the same batches, and diagnose the copy.

    Args:
        contenders: the networks; they are left as they were.
        batches: a list or a loader: one step each, the same for all; the first one is what is
            measured on.
        loss: a scalar from output and targets.
        treat_with: batches with which a network that fails is treated, on a copy; None treats none.
        spend: steps of the network that the search for a treatment may take.
        notify: called with what is going on, for a progress display.

    Returns:
        One course a contender, in their order. A network that diverges stops there.

    Raises:
        UsageError: there is no batch, one of them cannot be used, or something is not a contender.
    """
    for contender in contenders:
        if not isinstance(contender, Contender):
            raise UsageError(
                f"A {type(contender).__name__} cannot be compared; "
                "give Contender(name, model, optimizer)."
            )
        check_parameters(contender.model)
        batches = check_batches(contender.model, batches)
    courses = []
    for number, contender in enumerate(contenders, 1):
        result = None if notify is None else partial(_report_on, notify, number, len(contenders))
        courses.append(_course(contender, list(batches), loss=loss, notify=result))
    if treat_with is None:
        return courses
    return [
        _treat_copy(course, contender, treat_with, spend=spend, notify=notify)
        if course.has_failed
        else course
        for course, contender in zip(courses, contenders, strict=True)
    ]


def _course(
    contender: Contender,
    batches: Sequence[Batch],
    *,
    loss: LossFn,
    notify: Callable[[str], None] | None,
) -> Course:
    """One network's way over the batches, on a copy."""
    if notify is not None:
        notify(f"{contender.name}: diagnosing")
    with preserve_model(contender.model, copy_parameters=False):
        twin, optimizer = copy_training(contender.model, contender.optimizer)
        start = diagnose(twin, batches[0], loss=loss, optimizer=optimizer, title=contender.name)
        seen = forecast(
            twin,
            batches,
            loss=loss,
            optimizer=optimizer,
            budget=max(BUDGETS[0], len(batches)),
            spend=max(1, len(batches) // 3),
        )
        if contender.prepare is not None:
            contender.prepare(twin, optimizer)
        losses: list[float] = []
        for step in train_steps(twin, optimizer, batches, loss=loss):
            if notify is not None:
                notify(f"{contender.name}: step {step.number} of {len(batches)}")
            losses.append(step.loss)
        end = diagnose(
            twin,
            batches[0],
            loss=loss,
            optimizer=optimizer,
            title=contender.name,
            blocks=start.blocks,
        )
        return Course(start, end, tuple(losses), _accuracy(twin, batches), seen)


def _report_on(notify: Callable[[str], None], number: int, total: int, what: str) -> None:
    notify(f"network {number} of {total}, {what}")


def _treat_copy(
    course: Course,
    contender: Contender,
    batches: Iterable[Batch],
    *,
    spend: int,
    notify: Callable[[str], None] | None,
) -> Course:
    """The course with the treatment of another copy of its network."""

    def report_treating(what: str) -> None:
        if notify is not None:
            notify(f"{contender.name}: treating, {what}")

    with preserve_model(contender.model, copy_parameters=False):
        twin, optimizer = copy_training(contender.model, contender.optimizer)
        done = treat(
            twin,
            course.start,
            optimizer=optimizer,
            batches=batches,
            spend=spend,
            notify=report_treating,
        )
    return replace(course, treatment=done)


@torch.no_grad()
def _accuracy(model: nn.Module, batches: Sequence[Batch]) -> float | None:
    """Fraction of the last batches' labels that the model names, as it stands in train mode."""
    right = total = 0
    for inputs, targets in batches[-4:]:
        output = model(inputs) if isinstance(inputs, Tensor) else None
        if output is None or not isinstance(targets, Tensor) or targets.is_floating_point():
            return None
        right += int((output.argmax(class_axis(output, targets)) == targets).sum())
        total += targets.numel()
    return right / total if total else None
