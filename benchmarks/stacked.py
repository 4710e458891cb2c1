"""64 runs of a linear 2-shortcut network of depth 32, stacked and one by one.

Eight learning rates and eight seeds, 200 steps of gradient descent in float64; some rates are so
great that their runs diverge, in both ways at the same step. On 20 second-moment samples, which give
the loss of the full data, and on 1,000 samples.
"""

import time
from collections.abc import Iterator

import torch
from torch import nn

from bathyscope import data, nets
from bathyscope.training import TrainingConfig, fit, fit_stacked
from bathyscope.training.batches import derived_seed

WIDTH = 10
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 1.0)


def network() -> nn.Module:
    return nets.build("nshortcut-16-2", width=WIDTH, init="small").double()


def configurations(*, steps: int, seeds: int = 8) -> list[TrainingConfig]:
    return [
        TrainingConfig(
            loss="mse",
            batch_size=None,
            epochs=steps,
            lr=lr,
            seed=seed,
            schedule="constant",
            momentum=0.0,
            weight_decay=0.0,
            precision="float64",
        )
        for lr in RATES
        for seed in range(seeds)
    ]


def one_by_one(examples, configs):
    trained = []
    for config in configs:
        torch.manual_seed(derived_seed(config.seed, "weights"))
        model = network()
        trained.append((fit(model, examples, config=config), model.state_dict()))
    return trained


def greatest_difference(a, b) -> float:
    """Between the losses and final weights of runs that finished; the others must agree in how they
    diverged."""
    worst = 0.0
    for (first, m), (second, n) in zip(a, b, strict=True):
        assert first.ending == second.ending, (first.ending, second.ending)
        if first.status == "diverged":
            continue
        for name, q in n.items():
            worst = max(worst, ((m[name] - q).abs() / q.abs().clamp(min=1)).max().item())
        for p, q in zip(first.curve("loss"), second.curve("loss"), strict=True):
            worst = max(worst, abs(p - q) / max(1.0, abs(q)))
    return worst


def lines(steps: int = 200) -> Iterator[dict[str, object]]:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1000, WIDTH, generator=generator, dtype=torch.float64)
    y = x @ torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64)
    configs = configurations(steps=steps)
    for case, examples in (
        ("20 second-moment samples", data.moments(x, y)),
        ("1000 samples", (x, y)),
    ):
        fit_stacked(network, examples, configs=configurations(steps=3))
        began, wall = time.process_time(), time.perf_counter()
        stacked = fit_stacked(network, examples, configs=configs)
        stacked_cpu, stacked_wall = time.process_time() - began, time.perf_counter() - wall
        began, wall = time.process_time(), time.perf_counter()
        single = one_by_one(examples, configs)
        single_cpu, single_wall = time.process_time() - began, time.perf_counter() - wall
        yield {
            "benchmark": "stacked",
            "case": f"64 runs of nshortcut-16-2 on {case}, {steps} steps",
            "ratio": round(single_cpu / stacked_cpu, 2),
            "wall_ratio": round(single_wall / stacked_wall, 2),
            "diverged": sum(o.status == "diverged" for o, _ in stacked),
            "greatest_difference": greatest_difference(stacked, single),
            "stacked_cpu_seconds": round(stacked_cpu, 2),
        }
