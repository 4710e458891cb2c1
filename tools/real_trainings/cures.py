"""Score `treat` on failing and lagging trainings of real tasks, beside what a person would try.

    python -m tools.real_trainings.cures draw          # refused once there are results
    python -m tools.real_trainings.cures run           # resumes; one line a training
    python -m tools.real_trainings.cures run --development
    python -m tools.real_trainings.cures summary       # --second: 30 more, drawn later

The rivals have as many steps as `treat` took: the best of learning rate ÷ 10, × 10 and Adam at 3e-4;
the best of eight random settings; and Adam at 3e-3 without a search. What each of them chooses is
trained to the end of the budget from other weights' seed and batches, under the schedule of the case.
"""

import json
import math
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope import diagnose, treat
from bathyscope.core.batch import Batch
from bathyscope.core.stepping import copy_training, train_steps
from bathyscope.diagnosis.candidates import ADAM, random_settings
from bathyscope.remedies import Recipe, ReplaceOptimizer, ScaleRate
from bathyscope.remedies.settings import clip_before_each_step_
from tools.real_trainings.as_given import Given, as_given
from tools.real_trainings.case import Case, read_cases
from tools.real_trainings.cure_cases import (
    CASES,
    FOLDER,
    SECOND,
    CureCase,
    draw,
    draw_second,
    read,
    write,
)
from tools.real_trainings.labels import LAGS, end_loss
from tools.real_trainings.store import read_records

RESULTS = FOLDER / "results.jsonl"
SECOND_RESULTS = FOLDER / "second-results.jsonl"
DEVELOPED = FOLDER / "development.jsonl"
PERSON = tuple(
    Recipe(steps=(step,))
    for step in (ScaleRate(factor=0.1), ScaleRate(factor=10), ReplaceOptimizer(kind="adam", lr=3e-4))
)  # fmt: skip
LOOKED_AT = ("vae-fashion/02/5",)
"""Scored first, looked at, and a reason for a change (see README): it is counted no more."""

RANDOM_SEED = 1
"""Not the seed of the trials within `treat`."""


def cure(chosen: CureCase, case: Case) -> dict[str, Any]:
    """What becomes of one training under each of the rivals."""
    given = _given(case, chosen, seed=0)
    batches = given.batches
    first = next(batches)
    began = time.process_time()
    found = diagnose(given.model, first, loss=given.loss, optimizer=given.optimizer)
    treatment = treat(
        given.model, found, optimizer=given.optimizer, batches=batches, budget=case.budget
    )
    seconds = time.process_time() - began
    line: dict[str, Any] = {
        "id": chosen.id,
        "label": chosen.label,
        "is_shuffled": chosen.is_shuffled,
        "applied": treatment.applied,
        "level": treatment.level,
        "helped": treatment.helped,
        "outcome": treatment.outcome,
        "spent": treatment.spent,
        "verified": treatment.verification.steps,
        "own steps by CPU time": round(seconds / _step_seconds(case, chosen), 1),
    }
    if chosen.is_shuffled:
        return line
    steps = treatment.spent + treatment.verification.steps
    rivals = {
        "treat": treatment.recipe or Recipe(),
        "person": _best(case, chosen, PERSON, steps),
        "random": _best(
            case,
            chosen,
            tuple(Recipe(steps=s) for s in random_settings(8, seed=RANDOM_SEED)),
            steps,
        ),
        "adam": Recipe(steps=(ADAM,)),
    }
    ends: dict[str, float] = {}
    for name, recipe in rivals.items():
        same = next((n for n in ends if rivals[n] == recipe), None)
        ends[name] = ends[same] if same else _end(case, chosen, recipe)
    way = chosen.constant - chosen.best
    return line | {
        "chosen": {name: recipe.description for name, recipe in rivals.items()},
        "progress": {
            name: round((chosen.constant - end) / way, 3) if math.isfinite(end) else None
            for name, end in ends.items()
        },
        "untreated": None if chosen.end is None else round((chosen.constant - chosen.end) / way, 3),
    }


def _given(case: Case, chosen: CureCase, *, seed: int) -> Given:
    """The training as a user has it: clipping is a hook of the optimizer."""
    given = as_given(case, seed)
    if given.clip is not None:
        clip_before_each_step_(given.optimizer, given.clip)
    if not chosen.is_shuffled:
        return given
    generator = torch.Generator().manual_seed(seed)
    shuffled = (_shuffle(batch, generator) for batch in given.batches)
    return Given(
        given.model, shuffled, given.loss, given.optimizer, given.scheduler, given.clip, given.budget
    )  # fmt: skip


def _shuffle(batch: Batch, generator: torch.Generator) -> Batch:
    inputs, targets = batch
    assert isinstance(targets, Tensor)
    return inputs, targets[torch.randperm(len(targets), generator=generator)]


def _best(case: Case, chosen: CureCase, recipes: tuple[Recipe, ...], steps: int) -> Recipe:
    """The recipe with the smallest loss after a trial of its part of the steps; nan is worst."""
    each = min(case.budget, steps // len(recipes))
    ends = []
    for recipe in recipes:
        given = _given(case, chosen, seed=0)
        used = recipe.apply_(given.model, given.optimizer).optimizer or given.optimizer
        losses = _losses(given.model, used, given.batches, given, each)
        tail = losses[-max(8, each // 10) :]
        mean = sum(tail) / len(tail)
        ends.append(mean if len(losses) == each and math.isfinite(mean) else math.inf)
    return recipes[ends.index(min(ends))]


def _end(case: Case, chosen: CureCase, recipe: Recipe) -> float:
    """Mean loss of the last steps of a whole training, its schedule kept, from weights of seed 0.

    The batches come in an order that neither the table nor the search saw.
    """
    given = _given(case, chosen, seed=0)
    used = recipe.apply_(given.model, given.optimizer).optimizer or given.optimizer
    fresh = as_given(case, 5).batches
    rates = [group["lr"] for group in used.param_groups]
    losses: list[float] = []
    for number, step in enumerate(
        train_steps(given.model, used, islice(fresh, case.budget), loss=given.loss)
    ):
        for group, rate in zip(used.param_groups, rates, strict=True):
            group["lr"] = rate * given.scheduler(number)
        step.take()
        losses.append(step.loss)
        if not math.isfinite(step.loss):
            return math.inf
    return end_loss(torch.tensor(losses).numpy())


def _losses(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[Batch],
    given: Given,
    steps: int,
) -> list[float]:
    losses = []
    for step in train_steps(model, optimizer, islice(batches, steps), loss=given.loss):
        step.take()
        losses.append(step.loss)
        if not math.isfinite(step.loss):
            break
    return losses


def _step_seconds(case: Case, chosen: CureCase) -> float:
    """CPU seconds of one bare step, the median of some."""
    given = _given(case, chosen, seed=0)
    model, optimizer = copy_training(given.model, given.optimizer)
    batches = list(islice(given.batches, 40))
    times = []
    for batch in batches:
        began = time.process_time()
        optimizer.zero_grad()
        given.loss(_forward(model, batch[0]), batch[1]).backward()
        optimizer.step()
        times.append(time.process_time() - began)
    return sorted(times)[len(times) // 2]


def _forward(model: nn.Module, inputs: object) -> Any:
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def run(out: Path, purpose: str, cases: Path = CASES) -> None:
    """Every training that the file does not hold; those whose steps are cheapest first."""
    torch.set_num_threads(1)
    by_id = {case.id: case for case in read_cases()}
    done = {row["id"] for row in _rows(out)}
    cost = {r.id: r.step_seconds for r in read_records() if r.seed == 0}
    for chosen in sorted(read(cases), key=lambda c: cost[c.id]):
        if chosen.purpose == purpose and chosen.id not in done:
            torch.manual_seed(0)
            line = json.dumps(cure(chosen, by_id[chosen.id]), ensure_ascii=False)
            with out.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)


def _rows(path: Path) -> list[dict[str, Any]]:
    return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def summary(path: Path) -> list[str]:
    """Lines of text: how many train under each rival, levels, and false claims."""
    rows = _rows(path)
    rows = [row for row in rows if row["id"] not in LOOKED_AT]
    real = [row for row in rows if not row["is_shuffled"]]
    lines = [f"{len(real)} trainings"]
    for name in ("treat", "person", "random", "adam"):
        got = [row["progress"][name] for row in real]
        trains = sum(p is not None and p >= LAGS for p in got)
        middle = sorted(-9.0 if p is None else p for p in got)[len(got) // 2]
        lines.append(f"{name}: {trains} of {len(real)} train, median progress {middle}")
    levels = [str(row["level"]) for row in real]
    lines.append(f"levels: { {name: levels.count(name) for name in sorted(set(levels))} }")
    wrong = [
        row["id"]
        for row in rows
        if row["helped"] and (row["is_shuffled"] or not _is_better(row))
    ]  # fmt: skip
    missed = [r["id"] for r in real if not r["helped"] and r["applied"] and _is_better(r)]
    lines += [f"false `helped`: {wrong}", f"helped and not said: {missed}"]
    costs = sorted(row["own steps by CPU time"] for row in rows)
    lines.append(f"own steps by CPU time: median {costs[len(costs) // 2]}, most {costs[-1]}")
    return lines


def _is_better(row: dict[str, Any]) -> bool:
    """Whether the whole training ends better than the untreated one, and does not fail."""
    end, before = row["progress"]["treat"], row["untreated"]
    return end is not None and end >= 0.1 and (before is None or end > before + 0.02)


def main(arguments: list[str]) -> None:
    """One command."""
    is_development, is_second = "--development" in arguments, "--second" in arguments
    out = DEVELOPED if is_development else SECOND_RESULTS if is_second else RESULTS
    cases = SECOND if is_second else CASES
    match arguments[0]:
        case "draw":
            if out.exists():
                sys.exit(f"{out} holds results of the present list in {cases.name}.")
            write(draw_second() if is_second else draw(), cases)
        case "run":
            run(out, "development" if is_development else "score", cases)
        case _:
            print("\n".join(summary(out)))


if __name__ == "__main__":
    main(sys.argv[1:])
