"""The findings of a training loop and of what it trains, in one list."""

import contextlib
import io
import math
import statistics
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bathyscope.core.errors import UsageError, in_a_line
from bathyscope.core.global_state import preserve_random_state
from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, RootCause, Severity
from bathyscope.core.step_settings import StepSettings
from bathyscope.diagnosis.diagnose import diagnose
from bathyscope.diagnosis.diagnosis import Diagnosis
from bathyscope.recorder.called_parts import CalledParts
from bathyscope.recorder.first_step import FirstStep, FirstStepRecorder
from bathyscope.recorder.loop_findings import loop_findings, not_checked
from bathyscope.report.loop_settings import loss_divisor
from bathyscope.rules.findings import in_order, roots_of
from bathyscope.rules.registry import all_rules
from bathyscope.rules.rule import CausalStage

_FIRST_LEARNING = 16
"""Losses from which on a loop is judged to learn or not."""

_HARDLY_BEATEN = (0.95, 1.3)
"""Times the constant baseline's loss: nothing is learned in between; above, losses are of another kind."""

_COLLAPSED = 0.95
"""Mean cosine similarity between samples, above which they are hardly distinguished."""

_OF_BOTH = ("missing-logarithm", "output-misfit", "small-update")
"""What a loop shows, or else a diagnosis of its first step: said once."""

_SHOWN_BY_LOSS = (
    *(CausalStage.FLATNESS, CausalStage.WEIGHTS, CausalStage.UNITS, CausalStage.REPRESENTATIONS),
    *(CausalStage.GRADIENTS, CausalStage.UPDATES, CausalStage.OUTCOME),
)
"""Stages whose findings say that a network will hardly learn: the losses of the loop say whether it does."""


@dataclass(frozen=True, slots=True, eq=False)
class LoopDiagnosis:
    """What is wrong with a loop, and with the model, batch, loss and optimizer of its first step.

    Attributes:
        findings: of both, severest first and causes before effects.
        roots: those that no other one explains, with what they brought about.
        not_checked: what could not be checked, a sentence each.
        diagnosis: of the first step; None where it was not made.
        at_constant: a sentence where the loss has hardly beaten the constant baseline.
    """

    findings: tuple[Finding, ...]
    roots: tuple[RootCause, ...]
    not_checked: tuple[str, ...]
    diagnosis: Diagnosis | None
    at_constant: str = ""


def diagnose_loop(
    record: LoopRecord,
    first: FirstStepRecorder | None,
    later: Sequence[FirstStepRecorder] = (),
) -> LoopDiagnosis:
    """Join the findings of a loop's record with a diagnosis of its first step.

    The diagnosis runs on copies, prints nothing and draws no random number of the script's.

    Args:
        record: of the loop.
        first: what was kept of the first step; None to judge the loop alone.
        later: the same of models whose training began later; what is wrong with data, loss and structure
            is taken from them.
    """
    loop, notes = loop_findings(record), list(not_checked(record))
    result = None
    if first is not None and first.step is not None:
        try:
            with _silent(), preserve_random_state():
                result = diagnose_first_step(record, first.step)
        except Exception as error:  # of a user's own model, whatever it raises
            notes.append(f"Model, batch and loss were not diagnosed: {in_a_line(error)}.")
    elif first is not None and record.steps:
        why = first.why_not or "no pass of a trained model led to a backward pass"
        notes.append(f"Model, batch and loss were not diagnosed: {why}.")
    others = (
        [] if result is None else [f for f in result.findings if not _is_left_to_loop(f, record)]
    )
    blocks = () if result is None else result.blocks
    said = {f.code for f in loop}
    others = [f for f in others if f.code not in _OF_BOTH or f.code not in said]
    others += _collapsed(record, result)
    others += [f for step in later if first is not None for f in _of_later(record, step)]
    findings = in_order([*loop, *_as_seen(others, record)], blocks)
    if result is not None and first is not None and first.step is not None:
        notes += _notes(first.step, result, record)
    roots = roots_of(findings, blocks)
    stays = _at_constant(record, result, has_cause=bool(roots))
    return LoopDiagnosis(findings, roots, tuple(notes), result, stays)


def _collapsed(record: LoopRecord, result: Diagnosis | None) -> Iterator[Finding]:
    """Vectors of which the loss reads the direction alone, and that have all come to point one way."""
    asked = None if result is None else result.measurements.get("effective_targets")
    first, last = record.data.first_alike, record.data.last_alike
    if asked is None or not asked.settings.get("unit_rows") or first is None or last is None:
        return
    rule = all_rules()["collapsed-representation"]
    if last > _COLLAPSED and last > first:
        finding = rule.finding(
            Severity.PROBLEM, (), score=last, cosine_at_first=first, cosine_at_last=last
        )
        yield replace(
            finding,
            title=f"All samples have come to one direction: their mean cosine similarity is {last:.3f}",
            why="The loss is met by vectors that are all the same: nothing holds them apart, such as "
            "negatives, or a side without a gradient (detach) behind a predictor.",
            remedy="Detach the side that is predicted, or add negatives or a term on the variance.",
        )


def _of_later(record: LoopRecord, later: FirstStepRecorder) -> Iterator[Finding]:
    """What is wrong with data, loss and structure of a training that began behind another one."""
    if later.step is None:
        return
    try:
        with _silent(), preserve_random_state():
            result = diagnose_first_step(record, later.step)
    except Exception:  # of a user's own model, whatever it raises: the first one was diagnosed
        return
    name = type(later.step.model).__name__
    for finding in result.findings:
        is_early = all_rules()[finding.code].stage <= CausalStage.LOSS
        if (
            is_early
            and finding.severity is not Severity.NOTE
            and not _is_left_to_loop(finding, record)
        ):
            yield replace(
                finding, blocks=(), title=f"{finding.title} (of the {name} trained later)"
            )


def diagnose_first_step(record: LoopRecord, step: FirstStep) -> Diagnosis:
    """`diagnose` with the settings that the loop really had: rate, clipping, accumulation."""
    rows = [] if step.optimizer_index is None else record.optimizer_rows(step.optimizer_index)
    rate = next((row.lr for row in rows if row.lr > 0), None)
    # of several passes the output is that of the last, which need not read the inputs of the others
    left_out = ("unread-input",) if isinstance(step.model, CalledParts) else ()
    if step.optimizer is None:
        return diagnose(step.model, step.batch, loss=step.loss, silence=left_out)
    # a warm-up from zero begins at the first other rate
    for group in step.optimizer.param_groups:
        if rate is not None and float(group.get("lr", rate)) == 0.0:
            group["lr"] = rate
    clips = [use.limit for use in record.clips if use.kind == "norm" and use.clips_steps]
    settings = StepSettings(
        clip=min(clips, default=None), times=_accumulated(record, step.optimizer_index)
    )
    # an optimizer of the user's own may be unable to step on a copy
    with contextlib.suppress(UsageError), settings.applied_to(step.optimizer):
        return diagnose(
            step.model, step.batch, loss=step.loss, optimizer=step.optimizer, silence=left_out
        )
    return diagnose(step.model, step.batch, loss=step.loss, silence=left_out)


def _accumulated(record: LoopRecord, index: int | None) -> int:
    """Gradients of how many backward passes a step holds, less what is divided before it."""
    use = next((o for o in record.optimizers if o.index == index), None)
    if use is None or not use.micro_batches:
        return 1
    (number, _), *_ = use.micro_batches.most_common(1)
    divided = statistics.median(use.rescaled) if use.rescaled else 1.0
    return max(1, round(number * divided)) if math.isfinite(divided) else max(1, number)


def _is_left_to_loop(finding: Finding, record: LoopRecord) -> bool:
    """Whether many steps show it better than one batch: modes, and labels that differ later."""
    if all_rules()[finding.code].find_in_loop is not None and finding.code not in _OF_BOTH:
        return True
    # a network that separates real from made samples sees one kind at a time
    return finding.code == "constant-labels" and sum(o.steps > 0 for o in record.optimizers) > 1


def _as_seen(findings: Sequence[Finding], record: LoopRecord) -> Iterator[Finding]:
    """Findings that foretell trouble with the loss, milder where the loss has fallen nevertheless."""
    fall = _fall(record)
    for finding in findings:
        if finding.code == "frozen-parameters":  # as the script has set them
            yield replace(finding, severity=Severity.NOTE)
            continue
        is_refuted = (
            fall is not None
            and finding.severity is Severity.PROBLEM
            and all_rules()[finding.code].stage in _SHOWN_BY_LOSS
        )
        if is_refuted and fall is not None:
            yield replace(
                finding,
                severity=Severity.WARNING,
                why=f"{finding.why} (The mean loss fell from {fall[0]:.3g} in the first eighth of the "
                f"watched steps to {fall[1]:.3g} in the last nevertheless.)",
            )
        else:
            yield finding


def _fall(record: LoopRecord) -> tuple[float, float] | None:
    """Mean loss of the first and the last eighth of the steps, where it has fallen by half."""
    losses = [loss for loss in record.losses if math.isfinite(loss)]
    if len(losses) < max(_FIRST_LEARNING, len(record.losses)):
        return None
    eighth = max(2, len(losses) // 8)
    first, last = sum(losses[:eighth]) / eighth, sum(losses[-eighth:]) / eighth
    return (first, last) if 0 <= last < 0.5 * first else None


def _at_constant(record: LoopRecord, result: Diagnosis | None, *, has_cause: bool) -> str:
    """That the last losses are the constant baseline's, where they are."""
    losses = [loss for loss in record.losses if math.isfinite(loss)]
    constant = _constant_loss(record, result)
    if constant is None or len(losses) < _FIRST_LEARNING:
        return ""
    end = statistics.fmean(losses[-max(2, len(losses) // 8) :]) * loss_divisor(record)
    if not _HARDLY_BEATEN[0] * constant <= end <= _HARDLY_BEATEN[1] * constant:
        return ""
    advice = (
        ""
        if has_cause
        else "; no cause was found: check that labels belong to their inputs, and that the learning rate "
        "and the number of steps are large enough"
    )
    return (
        f"The loss is still at the constant baseline after {record.steps} steps ({end:.3g} against "
        f"{constant:.3g}){advice}."
    )


def _constant_loss(record: LoopRecord, result: Diagnosis | None) -> float | None:
    """Of the frequencies of all classes seen, else of the first batch's targets; None where not known."""
    measured = None if result is None else result.measurements.get("output")
    numbers = {} if measured is None else measured.settings
    known = numbers.get("best_constant")
    counts, is_mean = record.data.label_counts, not numbers.get("summed")
    measured_one = float(known) if isinstance(known, float) and known > 0 else None
    if len(counts) > 1 and is_mean:
        total = counts.total()
        entropy = -sum(n / total * math.log(n / total) for n in counts.values())
        # far from what the loss itself gave of the first batch, it is not cross-entropy
        if measured_one is None or 0.5 <= entropy / measured_one <= 2:
            return entropy
    return measured_one


def _notes(step: FirstStep, result: Diagnosis, record: LoopRecord) -> Iterator[str]:
    trained = [m for m in record.models if m.is_trained and m.wrapper is None and m.calls]
    if len(trained) > 1:
        name = type(step.model).__name__
        yield (
            f"Of {len(trained)} models that are trained one, a {name}, was diagnosed with its batch and "
            "loss: that of the first backward pass."
        )
    if step.optimizer is None:
        yield "The size of steps: none, or more than one, optimizer holds the model's parameters."
    elif "updates" not in result.measurements:
        yield f"The size of steps: {type(step.optimizer).__name__} cannot step on a copy."
    if step.autocast is not None:
        name = str(step.autocast).removeprefix("torch.")
        yield f"Passes under autocast to {name}: the model was measured in its own dtype."


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Nothing that the user's model prints or warns of shows: it has done so in its own run."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield
