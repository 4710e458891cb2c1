"""How a random training really ends: trained with two seeds, judged after 100, 300 and 1,000 steps."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.core.json_values import JsonMapping
from bathyscope.foresight.model import BUDGETS, FAILED, TRAINED
from tools.forecast_table.draw import VERSION, Draw, draw
from tools.forecast_table.networks import network
from tools.forecast_table.tasks import TableTask, task

NUM_SEEDS = 2
BATCH_SIZE = 32
_WINDOW = 10
"""Batches over which a score is averaged: 320 samples, an error of 2 points at 80 %."""

AUDITED = 8
"""Every eighth network is trained to the end, so that what the early end misses can be counted."""


@dataclass(frozen=True, slots=True)
class TrainingCourse:
    """One training.

    Attributes:
        first_loss: before the first step.
        scores: by budget; a training that ended early keeps its last, one that is non-finite has 0.
        losses: by budget, mean over the same batches.
        best: largest score until the end.
        ended: steps taken.
        why: `trained`, `stuck` or `non-finite`; empty where it went to the end.
    """

    first_loss: float
    scores: tuple[float, ...]
    losses: tuple[float, ...]
    best: float
    ended: int
    why: str


def label(number: int) -> dict[str, object]:
    """The row of a number: its draw and how its trainings ended."""
    drawn = draw(number)
    since = time.process_time()
    courses = [course(drawn, seed=seed) for seed in range(NUM_SEEDS)]
    return {
        "number": number,
        "version": VERSION,
        "draw": drawn.asdict(),
        "first_loss": [_short(c.first_loss) for c in courses],
        "scores": [[_short(s) for s in c.scores] for c in courses],
        "losses": [[_short(s) for s in c.losses] for c in courses],
        "best": [_short(c.best) for c in courses],
        "ended": [c.ended for c in courses],
        "why": [c.why for c in courses],
        "seconds": round(time.process_time() - since, 1),
    }


def outcome(row: JsonMapping, budget: int) -> str:
    """`trains`, `fails` or `between` within a budget of steps, both seeds asked."""
    location = BUDGETS.index(budget)
    scores = [seed[location] for seed in row["scores"]]
    if min(scores) >= TRAINED:
        return "trains"
    return "fails" if max(scores) < FAILED else "between"


def course(drawn: Draw, *, seed: int) -> TrainingCourse:
    """Train a draw from one of its starts until its end is decided."""
    data, model = task(drawn.task), network(drawn, seed=seed)
    optimizer = optimizer_of(drawn, model)
    in_full = drawn.number % AUDITED == 0
    losses, scores = list[float](), list[float]()
    kept: dict[int, tuple[float, float]] = {}
    best, why = 0.0, ""
    for step, (inputs, targets) in enumerate(batches(drawn, seed=seed), 1):
        for group in optimizer.param_groups:
            group["lr"] = drawn.rate * scheduled(drawn.schedule, step)
        loss, score = _step(model, optimizer, inputs, targets, data)
        losses.append(loss)
        scores.append(score)
        if not math.isfinite(loss):
            why = "non-finite"
            break
        recent = _mean(scores[-_WINDOW:])
        best = max(best, recent if step >= _WINDOW else 0.0)
        if step in BUDGETS:
            kept[step] = recent, _mean(losses[-_WINDOW:])
        if step == BUDGETS[-1]:
            break
        if not in_full and step % 50 == 0 and (why := _decided(losses, scores)):
            break
    last = (0.0, math.inf) if why == "non-finite" else (recent, _mean(losses[-_WINDOW:]))
    ends = [kept.get(budget, last) for budget in BUDGETS]
    return TrainingCourse(
        losses[0],
        tuple(s for s, _ in ends),
        tuple(value for _, value in ends),
        best,
        len(losses),
        why,
    )


def batches(drawn: Draw, *, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches without end, the set in a new order each time round."""
    data = task(drawn.task)
    generator = torch.Generator().manual_seed(1_000 * drawn.number + 500 + seed)
    while True:
        order = torch.randperm(len(data.inputs), generator=generator)
        for start in range(0, len(order) - BATCH_SIZE + 1, BATCH_SIZE):
            chosen = order[start : start + BATCH_SIZE]
            yield data.inputs[chosen], data.targets[chosen]


def optimizer_of(drawn: Draw, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of a draw, at its largest rate."""
    given, rate = list(model.parameters()), drawn.rate
    match drawn.optimizer:
        case "sgd":
            return torch.optim.SGD(given, lr=rate, fused=True)
        case "momentum":
            return torch.optim.SGD(given, lr=rate, momentum=0.9, fused=True)
        case "adam":
            return torch.optim.Adam(given, lr=rate, fused=True)
        case "adamw":
            return torch.optim.AdamW(given, lr=rate, weight_decay=0.05, fused=True)
        case _:
            return torch.optim.RMSprop(given, lr=rate, foreach=True)


def scheduled(schedule: str, step: int) -> float:
    """The fraction of the rate at a step, the first being 1."""
    match schedule:
        case "warmup":
            return min(1.0, step / 50)
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * (step - 1) / BUDGETS[-1]))
        case "step":
            return 1.0 if step <= 150 else 0.1
        case _:
            return 1.0


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
    data: TableTask,
) -> tuple[float, float]:
    """One step; loss and score before it."""
    optimizer.zero_grad(set_to_none=True)
    output = model(inputs)
    loss = data.loss(output, targets)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        return float(loss), data.score(output, targets)


def _decided(losses: list[float], scores: list[float]) -> str:
    """Whether a training may end.

    `trained` from step 200 on at 95 % over 50 batches; `stuck` from step 300 on below 40 %, with a
    loss that 100 steps have not lowered by 1 %.
    """
    recent, steps = _mean(scores[-50:]), len(losses)
    if steps >= 200 and recent >= 0.95:
        return "trained"
    falls = _mean(losses[-100:]) < 0.99 * _mean(losses[-200:-100] or losses)
    return "stuck" if steps >= 300 and recent < 0.4 and not falls else ""


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _short(value: float) -> float | None:
    """Four digits; None where it is non-finite, which JSON cannot hold."""
    return float(f"{value:.4g}") if math.isfinite(value) else None
