"""The standard measurements against training steps of the same network and batch, in time and memory.

`ratio` of a time line is (CPU time of the case) / (CPU time of a training step), so 3 means three
steps; of a memory line, peak memory over that of training, both above what the process held before.
Beside them stands a training step with a histogram of every parameter and gradient, as trackers
draw them.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import measure, nets
from benchmarks.interleaved import interleaved

_NETWORKS = ("preresnet-164", "preplain-164")
_BATCH = 32


def lines(*, rounds: int = 1) -> Iterator[dict[str, Any]]:
    """Time and memory of `standard` for a network that trains and one that is singular."""
    torch.set_num_threads(1)
    for name in _NETWORKS:
        yield from _times(name, repeats=2 * rounds)
        yield _memory(name)


def _times(name: str, *, repeats: int) -> Iterator[dict[str, Any]]:
    cases = _cases(name)
    cases["training step"]()  # the optimizer has its state, and plain networks are in trouble
    times = interleaved(cases, repeats=repeats, warmup=0)  # each takes seconds, and is warm by then
    step = times.pop("training step")
    for case, taken in times.items():
        yield {
            "benchmark": "measure",
            "case": f"{name}, 32x32, batch {_BATCH}: {case}",
            "ratio": round(1 / taken.ratio_to(step), 3),
            "cpu_seconds": round(taken.median_cpu, 3),
            "wall_seconds": round(taken.median_wall, 3),
            "step_cpu_seconds": round(step.median_cpu, 3),
            "repeats": repeats,
        }


def _memory(name: str) -> dict[str, Any]:
    peaks = {case: _in_a_process_of_its_own(name, case) for case in ("training step", "standard")}
    return {
        "benchmark": "measure",
        "case": f"{name}, 32x32, batch {_BATCH}: peak memory",
        "ratio": round(peaks["standard"] / peaks["training step"], 3),
        "standard_mib": round(peaks["standard"] / 1024),
        "step_mib": round(peaks["training step"] / 1024),
    }


def _cases(name: str) -> dict[str, Callable[[], object]]:
    torch.manual_seed(0)
    model = nets.build(name, num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    batch = torch.randn(_BATCH, 3, 32, 32), torch.randint(10, (_BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()

    def histogrammed_step() -> None:
        step()
        _histograms(model)

    return {
        "training step": step,
        "standard": lambda: measure.standard(
            model, batch, loss=F.cross_entropy, optimizer=optimizer
        ),
        "training step with histograms": histogrammed_step,
    }


def _histograms(model: nn.Module) -> list[torch.Tensor]:
    """64 bins over the range of every parameter and every gradient."""
    result = []
    for parameter in model.parameters():
        for tensor in (parameter.detach(), parameter.grad):
            if tensor is not None and bool(torch.isfinite(tensor).all()):
                low, high = tensor.aminmax()
                result.append(torch.histc(tensor, 64, min=low.item(), max=high.item()))
    return result


def _in_a_process_of_its_own(name: str, case: str) -> int:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(_peak, name, case).result()


def _peak(name: str, case: str) -> int:
    """Kibibytes by which two calls of the case raise the peak above the built network."""
    torch.set_num_threads(1)
    call = _cases(name)[case]
    before = _peak_so_far()
    for _ in range(2):
        call()
    return _peak_so_far() - before


def _peak_so_far() -> int:
    """Kibibytes, from Linux itself: `ru_maxrss` would start at the peak of the parent process."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
