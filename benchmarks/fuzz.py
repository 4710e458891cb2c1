"""Odd models × every public call, bad arguments, command lines, damaged files: judged and counted.

`python -m benchmarks fuzz` prints one line of counts for each part and one for each defect. Everything
is rebuilt from its number, so that a line names what to run again.
"""

import contextlib
import copy
import io
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.fuzzing.arguments import bad_call
from benchmarks.fuzzing.calls import (
    CALLS,
    TRAINS,
    first_difference,
    state_of,
    train_two_steps,
)
from benchmarks.fuzzing.commands import command, damaged_file, make_run, odd_location, run_command
from benchmarks.fuzzing.judge import Outcome, judge
from benchmarks.fuzzing.odd import OddModel, odd_model

Line = dict[str, Any]


def lines(
    *, models: int = 1200, arguments: int = 3000, commands: int = 600, files: int = 300
) -> Iterator[Line]:
    """Counts of every part, and what the defects are."""
    torch.set_num_threads(1)
    yield from count("odd models", model_outcomes(models))
    yield from count("arguments", argument_outcomes(arguments))
    yield from count("command lines", command_outcomes(commands))
    yield from count("damaged files", file_outcomes(files))


def argument_outcomes(num_calls: int, *, start: int = 0) -> Iterator[tuple[str, Outcome]]:
    """Public functions with bad arguments."""
    for number in range(start, start + num_calls):
        name, call = bad_call(number)
        with contextlib.redirect_stdout(io.StringIO()):  # `print` is among the bad losses
            outcome = judge(call)
        yield f"{number}: {name}", outcome


def command_outcomes(num_lines: int, *, start: int = 0) -> Iterator[tuple[str, Outcome]]:
    """Command lines in a folder full of oddities."""
    with tempfile.TemporaryDirectory() as folder, odd_location(Path(folder)):
        for number in range(start, start + num_lines):
            text = command(number)
            yield f"{number}: {' '.join(text)[:200]}", run_command(text)


def file_outcomes(num_files: int, *, start: int = 0) -> Iterator[tuple[str, Outcome]]:
    """Files of a run and a report, damaged one at a time."""
    with tempfile.TemporaryDirectory() as folder, odd_location(Path(folder)):
        make_run(Path(folder))
        for number in range(start, start + num_files):
            name, outcome = damaged_file(number, Path(folder))
            yield f"{number}: {name}", outcome


def count(part: str, outcomes: Iterator[tuple[str, Outcome]]) -> Iterator[Line]:
    """One line of counts, and one for each defect."""
    counts: Counter[str] = Counter()
    for name, outcome in outcomes:
        counts[outcome.kind] += 1
        if outcome.kind == "defect":
            yield {"benchmark": "fuzz", "part": part, "defect": outcome.what, "case": name}
    kinds = {kind: counts[kind] for kind in ("answered", "refused", "own", "defect")}
    yield {"benchmark": "fuzz", "part": part, "calls": counts.total(), **kinds}


def model_outcomes(num_calls: int, *, start: int = 0) -> Iterator[tuple[str, Outcome]]:
    """Odd models, each with one public call: every call meets every kind of model in turn."""
    names = list(CALLS)
    for number in range(start, start + num_calls):
        # a stride without common factor with the number of calls pairs everything with everything
        call = names[(number * 5 + number // len(names)) % len(names)]
        case = odd_model(number)
        yield f"{number}: {call} of {case.name}", one_call(call, case)


def one_call(call: str, case: OddModel) -> Outcome:
    """The outcome of one call on one model, which must be left as it was."""
    before, data = state_of(case.model), _printed(case.batch)
    alone = train_two_steps if call in TRAINS else _run_alone
    outcome = judge(lambda: CALLS[call](case), own=lambda: alone(case))
    if outcome.kind not in ("own", "defect") and call not in TRAINS:
        if changed := first_difference(before, state_of(case.model)):
            return Outcome("defect", f"changed: {changed}")
        if _printed(case.batch) != data:
            return Outcome("defect", "changed: the batch")
    return outcome


def _run_alone(case: OddModel) -> None:
    inputs, targets = copy.deepcopy(case.batch)
    call = case.model
    output = call(**inputs) if isinstance(inputs, dict) else call(*_positional(inputs))
    case.loss(output, targets).backward()


def _positional(inputs: Any) -> tuple[Any, ...]:
    return inputs if isinstance(inputs, tuple) else (inputs,)


def _printed(batch: Any) -> list[list[float]]:
    inputs, targets = batch
    given = inputs.values() if isinstance(inputs, dict) else _positional(inputs)
    return [t.flatten().tolist() for t in (*given, targets)]
