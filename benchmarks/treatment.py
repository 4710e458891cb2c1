"""How many networks that fail untreated train after `treat`, level by level, and what the race costs.

    python -m benchmarks treatment                       # cost of the race, in the network's own steps
    python -m benchmarks.treatment score OUT.jsonl FIRST COUNT   # resumable, one line per network
    python -m benchmarks.treatment score OUT.jsonl FIRST COUNT LEVELS SCORED.jsonl  # failing ones by level
    python -m benchmarks.treatment score OUT.jsonl 60000 COUNT   # transformers
    python -m benchmarks.treatment plain OUT.jsonl       # 50 and 100 layers, no shortcut allowed, five seeds

Scoring labels each number of `failing_networks` first (two trainings untreated), then treats the failing
ones from weights and with batches that neither training had, and trains what was treated for 300 steps.
"""

import gc
import itertools
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope.core.stepping import copy_training
from bathyscope.diagnosis import diagnose, treat
from bathyscope.remedies import CHANGE_LEVELS
from benchmarks.failing_networks import (
    TRAINS,
    FailureDraw,
    FailureTask,
    is_failing,
    task_of,
    untreated_accuracies,
)
from benchmarks.failing_transformers import FIRST_DEVELOPMENT, TransformerDraw, transformer_task

SCORING = range(2_000, 2_400)
"""Numbers of the score, never drawn in development (which began at 10,000)."""


def drawn(number: int) -> tuple[FailureDraw | TransformerDraw, FailureTask]:
    """The network of a number and its data: a transformer from 20,000 on."""
    if number < FIRST_DEVELOPMENT:
        network = FailureDraw.of(number)
        return network, task_of(network.task)
    transformer = TransformerDraw.of(number)
    return transformer, transformer_task(transformer.task)


def score(
    number: int, allow: tuple[str, ...] = CHANGE_LEVELS, before: tuple[float, ...] | None = None
) -> dict[str, Any]:
    """One network: whether it fails (`before`, where that is known), and if so what becomes of it."""
    draw, task = drawn(number)
    before = untreated_accuracies(draw.build, task) if before is None else before
    line: dict[str, Any] = {
        "number": number,
        "allow": list(allow),
        "draw": asdict(draw),
        "untreated": [round(a, 3) for a in before],
        "fails": is_failing(before),
    }
    if not line["fails"]:
        return line
    model, optimizer = draw.build(2)
    result = diagnose(model, task.batches(1, seed=300)[0], loss=task.loss, optimizer=optimizer)
    batches = iter(task.batches(400, seed=400))
    treatment = treat(model, result, optimizer=optimizer, batches=batches, allow=allow)
    after = task.accuracy_after_training(model, treatment.optimizer, seed=500)
    return line | {
        "found": [f.code for f in result.findings][:3],
        "applied": treatment.applied,
        "level": treatment.level,
        "helped": treatment.helped,
        "spent": treatment.spent,
        "verified": treatment.verification.steps,
        "after": round(after, 3),
        "trains": after >= TRAINS,
    }


def _rows(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def plain(layers: int, seed: int) -> dict[str, Any]:
    """A plain ReLU network without norms from He's start on digits, and what is left of it to allow."""
    torch.manual_seed(seed)
    body = [part for _ in range(layers - 1) for part in (nn.Linear(64, 64), nn.ReLU())]
    model = nn.Sequential(nn.Flatten(), *body, nn.Linear(64, 10))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight)
            nn.init.zeros_(module.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    task = task_of("digits")
    untreated = copy_training(model, optimizer)
    before = task.accuracy_after_training(*untreated, seed=100 + seed)
    result = diagnose(model, task.batches(1, seed=300 + seed)[0], optimizer=optimizer)
    batches = iter(task.batches(400, seed=400 + seed))
    treatment = treat(model, result, optimizer=optimizer, batches=batches, allow=CHANGE_LEVELS[:3])
    after = task.accuracy_after_training(model, treatment.optimizer, seed=500 + seed)
    return {
        "layers": layers,
        "seed": seed,
        "untreated": round(before, 3),
        "applied": treatment.applied,
        "helped": treatment.helped,
        "after": round(after, 3),
    }


def plain_networks(out: Path) -> None:
    """The plain networks that the file does not hold."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    done = {(row["layers"], row["seed"]) for row in _rows(out)}
    for layers, seed in itertools.product((50, 100), range(5)):
        if (layers, seed) not in done:
            line = json.dumps(plain(layers, seed))
            with out.open("a") as file:
                file.write(line + "\n")


def main(
    out: Path, first: int, count: int, allow: tuple[str, ...], scored: Path | None = None
) -> None:
    """Score the numbers that the file does not hold; of another file's, only those that fail."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # fading signals end in numbers that a CPU is slow on
    done = {row["number"] for row in _rows(out)}
    known = {r["number"]: tuple(r["untreated"]) for r in _rows(scored) if r["fails"]}
    for number in range(first, first + count):
        if number not in done and (scored is None or number in known):
            line = json.dumps(score(number, allow, known.get(number)))
            with out.open("a") as file:
                file.write(line + "\n")


class OwnSteps:
    """Bare steps of an untreated network, taken now and then while something else is timed."""

    def __init__(self, draw: FailureDraw, batches: list[tuple[Tensor, Tensor]]) -> None:
        self.model, self.optimizer = draw.build(2)
        self.batches = itertools.cycle(batches)
        self.spans: list[tuple[str, float]] = []  # what was going on, and for how long
        self.times: list[float] = []
        self.kind, self.began = "race", 0.0

    def notify(self, text: str) -> None:
        """Called by `treat` between its trainings: what ran up to now is noted, and some steps are taken."""
        self.spans.append((self.kind, time.process_time() - self.began))
        for x, y in itertools.islice(self.batches, 4):
            began = time.process_time()
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
            self.times.append(time.process_time() - began)
        self.kind = "verifying" if text.startswith("verifying") else "race"
        self.began = time.process_time()

    def total(self, kind: str) -> float:
        """CPU seconds of a kind."""
        return sum(seconds for k, seconds in self.spans if k == kind)


def cost(number: int) -> dict[str, Any]:
    """What `treat` costs a network, the diagnosis before it included, against its own bare steps."""
    draw = FailureDraw.of(number)
    batches = task_of(draw.task).batches(400, seed=400)
    model, optimizer = draw.build(2)
    diagnose(model, batches[0], optimizer=optimizer)  # what is loaded at first use is loaded
    own = OwnSteps(draw, batches)
    own.notify("race")  # the first steps are not those to compare with
    own.times.clear()
    own.spans.clear()
    gc.collect()
    gc.disable()
    own.began = time.process_time()
    result = diagnose(model, batches[0], optimizer=optimizer)
    treatment = treat(model, result, optimizer=optimizer, batches=iter(batches), notify=own.notify)
    own.notify("race")
    began = time.process_time()
    diagnose(model, batches[0], optimizer=treatment.optimizer)
    again = time.process_time() - began if treatment.recipe is not None else 0.0
    gc.enable()
    step = statistics.fmean(own.times)
    return {
        "benchmark": "treatment",
        "case": f"{draw.family}-{draw.depth}: diagnosing, race and measuring again, in own steps",
        # after the last word of a verification comes the diagnosis of what was treated
        "ratio": round((own.total("race") + again) / step, 1),
        "counted": treatment.spent,
        "verifying": round((own.total("verifying") - again) / step, 1),
        "verified": treatment.verification.steps,
        "own_ms": round(1e3 * step, 2),
    }


def lines() -> Iterator[dict[str, Any]]:
    """The race's cost as a multiple of the network's own step, both by CPU time in one process."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for number in (10_001, 10_013, 10_010, 10_020):
        yield cost(number)


if __name__ == "__main__" and sys.argv[1] == "plain":
    plain_networks(Path(sys.argv[2]))
elif __name__ == "__main__":
    levels = tuple(sys.argv[5].split(",")) if len(sys.argv) > 5 else CHANGE_LEVELS
    known_from = Path(sys.argv[6]) if len(sys.argv) > 6 else None
    main(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), levels, known_from)
