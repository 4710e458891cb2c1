"""What the loop costs beside a bare PyTorch loop: same network, same tensors, same steps.

The bare loop shuffles, steps and reads `loss.item()`, no more. Ours also measures accuracy and
gradient norm, watches for NaN, and writes a line of metrics for every step to a run folder. Timed
from before the first step to after the last; what a checkpoint costs is a line of its own. `fused`
gives the bare loop the fused optimizer that ours uses; `default` leaves it torch's default for a CPU.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import data, nets
from bathyscope.runs import save_checkpoint
from bathyscope.training import Callback, LoopView, TrainingConfig, train

Examples = tuple[torch.Tensor, torch.Tensor]
Cost = tuple[float, float]


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )


def preresnet() -> nn.Module:
    return nets.build("preresnet-164", in_channels=1)


def clocks() -> Cost:
    return time.process_time(), time.perf_counter()


def since(began: Cost) -> Cost:
    cpu, wall = clocks()
    return cpu - began[0], wall - began[1]


def bare(
    build: Callable[[], nn.Module], examples: Examples, steps: int, *, fused: bool | None
) -> Cost:
    model, (x, y) = build(), examples
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=fused
    )
    began, done = clocks(), 0
    while True:
        order = torch.randperm(len(x))
        for start in range(0, len(x), 64):
            if done == steps:
                return since(began)
            rows = order[start : start + 64]
            loss = F.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            done += 1


class Clock(Callback):
    """Times the steps, metrics included."""

    cost: Cost

    def on_start(self, loop: LoopView) -> None:
        """Start the clock."""
        self.began = clocks()

    def on_end(self, loop: LoopView, ending: str) -> None:
        """Stop it."""
        self.cost = since(self.began)


def ours(build: Callable[[], nn.Module], examples: Examples, steps: int) -> Cost:
    config = TrainingConfig(lr=0.01, epochs=10_000, max_steps=steps, schedule="constant")
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        train(build, examples, config=config, folder=Path(folder) / "run", callbacks=[clock])
    return clock.cost


def lines(*, rounds: int = 1) -> Iterator[dict[str, object]]:
    torch.set_num_threads(1)
    digits = data.load("digits", normalize=True)
    images = (digits.train_inputs, digits.train_labels)
    vectors = (digits.train_inputs.flatten(1), digits.train_labels)
    for case, build, examples, steps, repeats, limit in (
        ("mlp 64-256-256-10, batch 64", mlp, vectors, 500, 7 * rounds, 1.15),
        ("preresnet-164, batch 64", preresnet, images, 4, 7 * rounds, 1.02),
    ):
        result: list[dict[str, Cost]] = []
        for _ in range(repeats + 1):  # the first round warms up
            result.append(
                {
                    "default": bare(build, examples, steps, fused=None),
                    "ours": ours(build, examples, steps),
                    "fused": bare(build, examples, steps, fused=True),
                }
            )
        for rival in ("default", "fused"):
            cpu, wall = (
                statistics.median(costs["ours"][i] / costs[rival][i] for costs in result[1:])
                for i in (0, 1)
            )
            yield {
                "benchmark": "training_loop",
                "case": f"{case}, bare loop with the {rival} optimizer",
                "ratio": round(cpu, 3),
                "wall_ratio": round(wall, 3),
                "limit": limit,
                "steps": steps,
                "repeats": repeats,
            }
        yield {"benchmark": "training_loop", "case": f"{case}, a checkpoint"} | checkpoint(build())


def checkpoint(model: nn.Module) -> dict[str, object]:
    state = {"momentum": [p.detach().clone() for p in model.parameters()]}
    with tempfile.TemporaryDirectory() as folder:
        costs = []
        for step in range(5):
            began = clocks()
            save_checkpoint(Path(folder), step, weights=model.state_dict(), state=state)
            costs.append(since(began))
    cpu, wall = (statistics.median(cost[i] for cost in costs) for i in (0, 1))
    return {"cpu_seconds": round(cpu, 4), "wall_seconds": round(wall, 4)}
