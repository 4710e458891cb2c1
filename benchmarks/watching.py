"""What `watch` costs a training loop: time inside its hooks, and the whole run with and without it.

`ratio` of the first line is (seconds inside the hooks) / (seconds of the run); of the second, CPU time
of the watched run over that of the bare one, both over the same number of steps.
"""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F

from bathyscope import nets
from bathyscope.recorder import watch
from benchmarks.interleaved import interleaved

_STEPS = 50
_BATCH = 64


def lines(*, name: str = "preresnet-164", repeats: int = 1) -> Iterator[dict[str, Any]]:
    """One recorded step in fifty, on 32×32 images."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nets.build(name, num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(_BATCH, 3, 32, 32), torch.randint(10, (_BATCH,))
    shares: list[float] = []

    def run(watched: bool) -> None:
        context = watch(model, every=_STEPS) if watched else nullcontext()
        began = time.perf_counter()
        with context:
            for _ in range(_STEPS):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        if watched:
            shares.append(context.seconds / (time.perf_counter() - began))

    times = interleaved(
        {"bare": lambda: run(False), "watched": lambda: run(True)}, repeats=repeats, warmup=0
    )
    case = f"{name}, 32x32, batch {_BATCH}, every={_STEPS}"
    yield {
        "benchmark": "watching",
        "case": f"{case}: inside the hooks",
        "ratio": round(sorted(shares)[len(shares) // 2], 5),
        "repeats": repeats,
    }
    yield {
        "benchmark": "watching",
        "case": f"{case}: whole run",
        "ratio": round(1 / times["watched"].ratio_to(times["bare"]), 4),
        "wall_seconds": round(times["watched"].median_wall, 2),
        "repeats": repeats,
    }
