"""What diagnose, watch, forecast and a Hessian product cost on this machine's accelerator.

python -m benchmarks gpu

Speed on a real accelerator cannot be had from the pretend one of the tests; this measures it in one go:
time as ratios to a bare training step, memory in sizes of the model's parameters. Without an accelerator it
says so and measures on the CPU, where memory is not counted.
"""

import statistics
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import bathyscope as bs

_ROUNDS = 5


def lines() -> Iterator[dict[str, object]]:
    """One line a network and call."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    device = torch.device("cpu") if found is None else found
    yield {
        "benchmark": "gpu",
        "device": str(device),
        "name": _name_of(device),
        "torch": torch.__version__,
        "tf32": torch.get_float32_matmul_precision(),
    }
    for name, network in (("preresnet-164", _images), ("gpt-12", _tokens)):
        model, batch, loss = network(device)
        yield from _of_network(name, model, batch, loss, device)


def _of_network(name, model, batch, loss, device) -> Iterator[dict[str, object]]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    size = sum(p.nbytes for p in model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss(model(batch[0]), batch[1]).backward()
        optimizer.step()

    bare, _ = _cost(step, device)
    yield {"benchmark": "gpu", "network": name, "call": "bare step", "seconds": round(bare, 5)}
    with bs.watch(model, every=10**6):
        for _ in range(40):
            step()
        cheap, _ = _cost(step, device)
    with bs.watch(model, every=1):
        full, _ = _cost(step, device)
    yield _line(name, "watch, cheap step", cheap, bare)
    yield _line(name, "watch, full step", full, bare)
    matrix = bs.hessian(model, batch, loss=loss)
    vector = torch.randn(matrix.shape[0], device=device)
    calls: dict[str, Callable[[], object]] = {
        "diagnose": lambda: bs.diagnose(model, batch, loss=loss, optimizer=optimizer),
        "forecast": lambda: bs.forecast(model, [batch], loss=loss, optimizer=optimizer, spend=8),
        "Hessian product": lambda: matrix @ vector,
    }
    for call, run in calls.items():
        optimizer.zero_grad(set_to_none=True)
        seconds, peak = _cost(run, device, rounds=2)
        yield _line(name, call, seconds, bare, peak=None if peak is None else peak / size)


def _line(name: str, call: str, seconds: float, bare: float, **more: object) -> dict[str, object]:
    known = {key: round(v, 3) for key, v in more.items() if isinstance(v, float)}
    steps = round(seconds / bare, 3)
    return {"benchmark": "gpu", "network": name, "call": call, "steps": steps, **known}


def _cost(run: Callable[[], object], device: torch.device, *, rounds: int = _ROUNDS):
    """Median seconds, and bytes at the peak beyond what was there; None where nobody counts them."""
    is_counted = device.type != "cpu" and hasattr(torch.accelerator, "max_memory_allocated")
    seconds, peak = [], None
    run()
    for _ in range(rounds):
        if is_counted:
            torch.accelerator.reset_peak_memory_stats()
            before = torch.accelerator.memory_allocated()
        _wait(device)
        began = time.perf_counter()
        run()
        _wait(device)
        seconds.append(time.perf_counter() - began)
        if is_counted:
            peak = torch.accelerator.max_memory_allocated() - before
    return statistics.median(seconds), peak


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()


def _name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else device.type


def _images(device: torch.device) -> tuple[nn.Module, tuple[Tensor, Tensor], object]:
    size = 128 if device.type != "cpu" else 8
    model = bs.nets.build("preresnet-164", num_classes=10, seed=0, device=device)
    images = torch.randn(size, 3, 32, 32, device=device)
    return model, (images, torch.randint(10, (size,), device=device)), F.cross_entropy


def _tokens(device: torch.device) -> tuple[nn.Module, tuple[Tensor, Tensor], object]:
    size, width = (32, 768) if device.type != "cpu" else (2, 64)
    model = bs.nets.build(
        "gpt-12", width=width, vocabulary=5000, context=256, seed=0, device=device
    )
    tokens = torch.randint(5000, (size, 257), device=device)

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(output.flatten(0, 1), targets.flatten())

    return model, (tokens[:, :-1], tokens[:, 1:]), loss
