"""What the product's own look-ahead shows of the table's trainings, kept raw so that a fit can read it."""

import json
import os
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from bathyscope.core.global_state import preserve_random_state
from bathyscope.core.rate_plan import plan_rates
from bathyscope.foresight.course import FirstSteps, TrainingPlan, look_ahead_steps, take_course
from tools.real_trainings.as_given import as_given
from tools.real_trainings.case import TABLE, Case, read_cases
from tools.real_trainings.curve import encode_curve

OBSERVED = TABLE / "observed.jsonl"
STEPS = 80
"""As many as a look-ahead ever takes within the table's budgets, so that any shorter one can be read."""


@dataclass(frozen=True)
class Observed:
    """One look-ahead; the losses and norms of all its steps, its readings at the stages."""

    id: str
    seed: int
    losses: str
    norms: str
    readings: dict[str, dict[str, float]]
    baseline: float | None
    kind: str
    batch_size: int
    num_parameters: int
    seconds: float


def observe(case: Case, seed: int) -> Observed:
    """Take the look-ahead of one training, as a user's call of `forecast` would."""
    given = as_given(case, seed)
    steps = look_ahead_steps(given.budget)
    with preserve_random_state():
        torch.manual_seed(seed + 77)
        batches = list(islice(given.batches, steps))
        rates = plan_rates([given.optimizer], given.scheduler, given.budget)
        plan = TrainingPlan(given.budget, rates, is_scheduled=True, clip=given.clip)
        began = time.process_time()
        course = take_course(
            given.model,
            batches,
            loss=given.loss,
            optimizers=[given.optimizer],
            plan=plan,
            steps=steps,
        )
    return summarize(case.id, seed, course, time.process_time() - began)


def summarize(id: str, seed: int, course: FirstSteps, seconds: float) -> Observed:
    """The numbers of a course, short enough to keep."""
    return Observed(
        id=id,
        seed=seed,
        losses=encode_curve(list(course.losses)),
        norms=encode_curve(list(course.gradient_norms)),
        readings={
            str(r.step): {name: float(f"{value:.4g}") for name, value in r.values.items()}
            for r in course.readings
        },
        baseline=course.baseline,
        kind=course.readings[-1].goal.kind if course.readings else "other",
        batch_size=course.batch_size,
        num_parameters=course.num_parameters,
        seconds=round(seconds, 3),
    )


def observe_all(path: Path = OBSERVED, *, seeds: tuple[int, ...] = (0, 1)) -> int:
    """Observe what is missing, one row after the other; how many rows there are."""
    torch.set_num_threads(1)
    rows = path.read_text().splitlines() if path.exists() else []
    known = {(row["id"], row["seed"]) for row in map(json.loads, rows)}
    for seed in seeds:
        for case in read_cases():
            if (case.id, seed) in known:
                continue
            with path.open("a") as file:
                file.write(json.dumps(observe(case, seed).__dict__) + "\n")
                file.flush()
                os.fsync(file.fileno())
            known.add((case.id, seed))
    return len(known)
