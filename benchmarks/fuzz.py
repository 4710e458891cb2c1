"""Odd models × every public call, bad arguments, command lines, damaged files: judged and counted.

`python -m benchmarks fuzz` prints one line of counts for each part and one for each kind of defect.
"""

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.fuzzing.calls import CALLS, TRAINS, first_difference, state_of
from benchmarks.fuzzing.judge import Outcome, judge
from benchmarks.fuzzing.odd import OddModel, odd_model

Line = dict[str, Any]


def lines(*, models: int = 1000) -> Iterator[Line]:
    """Counts of every part, and what the defects are."""
    torch.set_num_threads(1)
    yield from count("models", model_outcomes(models))


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
    outcome = judge(lambda: CALLS[call](case), own=lambda: _run_alone(case))
    if outcome.kind != "own" and call not in TRAINS:
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
