"""How the cost of measuring grows: against depth, width, batch, image size and processes.

One line per quantity: CPU seconds at every size (the smallest of a few calls), the slope of their logarithms
between the last two sizes, and the exponent that counting operations gives. Sizes are small: it is the
exponent that carries over, not the seconds.
"""

import math
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope import nets

Make = Callable[[int], tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]]

_REPEATS = 2
_ENOUGH = 1.0  # seconds: what takes longer is not repeated


def case(
    *, depth: int = 11, width: int = 8, batch: int = 16, side: int = 8
) -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """A network of bottleneck blocks on random images; its form has two layers more, of transition."""
    torch.manual_seed(0)
    name = f"procresnet-{depth + 2}"
    model = nets.build(name, num_classes=10, width=width, in_channels=1, seed=0)
    return model, (torch.randn(batch, 1, side, side), torch.randint(10, (batch,)))


AGAINST: dict[str, tuple[tuple[int, ...], Make]] = {
    "depth": ((11, 101, 1001), lambda n: case(depth=n, batch=4)),
    "width": ((32, 64, 128), lambda n: case(width=n)),
    "batch": ((64, 256, 1024), lambda n: case(batch=n)),
    "image side": ((16, 32, 64), lambda n: case(side=n)),
}
# Exponents from the number of operations of a pass; spectra add what the page says.
THEORY = {"depth": 1.0, "width": 2.0, "batch": 1.0, "image side": 2.0}


def diagnosis(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Callable[[], object]:
    """The standard probes."""
    return lambda: bs.diagnose(model, batch)


def forecast(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Callable[[], object]:
    """One step of the look-ahead."""
    return lambda: bs.forecast(model, [batch], spend=1)


def product(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Callable[[], object]:
    """A product with the Hessian, its graph made again."""

    def multiply() -> object:
        matrix = bs.hessian(model, batch)
        return matrix.operator @ torch.ones(matrix.operator.shape[0], 1)

    return multiply


def procrustes(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Callable[[], object]:
    """A step of the optimizer that projects the transition layers."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    layers = list(model.transition_layers().values())  # type: ignore[operator]
    bs.remedies.procrustes_(optimizer, layers, every=1)
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    return optimizer.step


QUANTITIES: Mapping[str, Callable[..., Callable[[], object]]] = {
    "diagnosis": diagnosis,
    "forecast, one step": forecast,
    "Hessian product": product,
    "Procrustes step": procrustes,
}


def lines() -> Iterator[dict[str, Any]]:
    """Every quantity against every size, then the diagnosis against processes."""
    torch.set_num_threads(1)
    for against, (sizes, make) in AGAINST.items():
        for quantity, ask in QUANTITIES.items():
            ask(*make(sizes[0]))()  # what is loaded at the first call
            seconds = [smallest_seconds(ask(*make(size))) for size in sizes]
            yield {
                "benchmark": "growth",
                "case": f"{quantity} against {against}",
                "sizes": list(sizes),
                "cpu_seconds": [round(s, 4) for s in seconds],
                "ratio": round(slope(sizes, seconds), 2),
                "theory": 0.0 if _is_fixed(quantity, against) else THEORY[against],
            }
    alone, together = (processes_seconds(number) for number in (1, 2))
    yield {
        "benchmark": "growth",
        "case": "diagnosis against processes (DistributedDataParallel, the batch shared out)",
        "sizes": [1, 2],
        "cpu_seconds": [round(alone, 4), round(together, 4)],
        "ratio": round(slope((1, 2), (alone, together)), 2),
        "theory": 0.0,
    }


def _is_fixed(quantity: str, against: str) -> bool:
    """A projection works on the weights of the transition layers, of which there are a few."""
    return quantity.startswith("Procrustes") and against != "width"


def smallest_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of the fastest of a few calls."""
    best = math.inf
    for _ in range(_REPEATS):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
        if best > _ENOUGH:
            break
    return best


def slope(sizes: tuple[int, ...], seconds: list[float] | tuple[float, ...]) -> float:
    """Of the logarithms, between the last two sizes."""
    return math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])


def processes_seconds(number: int) -> float:
    """CPU seconds of each process that diagnoses one batch together with the others."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    started = [
        context.Process(target=_one_of, args=(rank, number, port, queue)) for rank in range(number)
    ]
    for process in started:
        process.start()
    result = [queue.get(timeout=600) for _ in started]
    for process in started:
        process.join()
    return max(result)


def _one_of(rank: int, number: int, port: int, queue: Any) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=number
    )
    model, (x, y) = case(batch=32)
    wrapped = nn.parallel.DistributedDataParallel(model)
    rows = slice(rank * 32 // number, (rank + 1) * 32 // number)
    queue.put(smallest_seconds(diagnosis(wrapped, (x[rows], y[rows]))))
    torch.distributed.destroy_process_group()
