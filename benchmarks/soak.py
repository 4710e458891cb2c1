"""Ten minutes of measuring over and over: resident size, handles, threads and hooks must stay as they are.

`python -m benchmarks soak` prints a line for every fifty calls and one with the growth a call. The first
fifth of the calls is left out of it: caches fill and libraries are loaded there.
"""

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import bathyscope as bs


def lines(*, calls: int = 500, seconds: float = 600.0) -> Iterator[dict[str, Any]]:
    """What the process holds as `diagnose` is called again and again, with a Hessian between."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    side = 64  # a map of 4 samples is 256 kB: what leaked here once were dozens of them a call
    layers = [nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()) for _ in range(2)]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64, 3))
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *layers, head)
    batch = (torch.randn(4, 3, side, side), torch.tensor([0, 1, 2, 0]))
    small = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    vectors = (torch.randn(16, 8), torch.arange(16) % 3)
    began, sizes = time.monotonic(), []
    for number in range(1, calls + 1):
        bs.diagnose(model, batch)
        if number % 5 == 0:
            bs.hessian(small, vectors).extremes(1)
        sizes.append(resident_bytes())
        if number % 50 == 0:
            yield {"benchmark": "soak", "calls": number, **_held(model)}
        if time.monotonic() - began > seconds:
            break
    yield {
        "benchmark": "soak",
        "calls": len(sizes),
        "megabytes_a_call": round(growth(sizes[len(sizes) // 5 :]) / 1e6, 4),
        "seconds": round(time.monotonic() - began),
    }


def resident_bytes() -> int:
    """What the process takes of the machine's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def growth(sizes: list[int]) -> float:
    """The slope of the line of least squares through the sizes, in bytes a call."""
    n = len(sizes)
    if n < 2:
        return 0.0
    mean_x, mean_y = (n - 1) / 2, sum(sizes) / n
    above = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(sizes))
    return above / sum((x - mean_x) ** 2 for x in range(n))


def _held(model: nn.Module) -> dict[str, Any]:
    gc.collect()
    tables = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return {
        "resident_megabytes": round(resident_bytes() / 1e6, 1),
        "handles": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "hooks": sum(len(getattr(m, t) or {}) for m in model.modules() for t in tables),
    }
