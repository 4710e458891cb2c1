"""The first step of a script beside the same one in another form, or that of another script."""

import contextlib
import copy
import io
from typing import TYPE_CHECKING, Any

import torch

from bathyscope.cli.script import run_file
from bathyscope.core.errors import in_a_line
from bathyscope.core.global_state import RngState
from bathyscope.core.hooks import Hooks
from bathyscope.diagnosis.twin import twin
from bathyscope.recorder.ledger import Ledger

if TYPE_CHECKING:
    from bathyscope.recorder.first_step import FirstStep, FirstStepRecorder


class _StepTaken(BaseException):
    """Ends a script after its first step; no handler of `Exception` in it keeps it going."""


def compare_first_step(
    first: "FirstStepRecorder | None", form: str, start: RngState, script: list[str]
) -> str:
    """What `bathyscope.twin` says of the first step and the same one in another form.

    Args:
        first: what was recorded of the script; None where it was interrupted.
        form: `compiled`, `bfloat16`, or the path of another script.
        start: the random numbers before the script ran, from which the other one begins, too.
        script: the script and its arguments, which the other one is given.
    """
    if first is None or first.step is None:
        why = "the script was interrupted" if first is None else first.why_not
        return f"Twin ({form}): not compared, because {why or 'no step was recorded'}."
    step = first.step
    try:
        if form in ("compiled", "bfloat16"):
            other = copy.deepcopy(step.model)
            changed: Any = torch.compile(other) if form == "compiled" else other.to(torch.bfloat16)
            return f"Twin ({form}): {twin(step.model, changed, step.batch, loss=step.loss)}"
        there, why = _step_of([form, *script[1:]], start)
        if there is None:
            return f"Twin ({form}): not compared, because {why}."
        result = twin(
            *(step.model, there.model, step.batch),
            other_batch=there.batch,
            loss=step.loss,
            other_loss=there.loss,
        )
        return f"Twin ({form}): {result}"
    except Exception as error:  # of a compiler, or of a model that knows one dtype
        return f"Twin ({form}): not compared: {in_a_line(error)}."


def _step_of(script: list[str], start: RngState) -> tuple["FirstStep | None", str]:
    """The first step of another script, which ends there, in silence; and why there is none."""
    hooks, why = Hooks(), "it takes no step"
    silence = io.StringIO()
    start.restore()
    with (
        Ledger(copies_first_step=True) as ledger,
        contextlib.redirect_stdout(silence),
        contextlib.redirect_stderr(silence),
        hooks,
    ):
        hooks.after_step(None, _end)
        try:
            run_file(script)
        except _StepTaken:
            pass
        except (Exception, SystemExit) as error:  # whatever a script may raise
            why = f"it ends with {type(error).__name__}: {in_a_line(error)}"
        recorded = ledger.first_step
    assert recorded is not None
    return recorded.step, recorded.why_not or why


def _end(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
    raise _StepTaken
