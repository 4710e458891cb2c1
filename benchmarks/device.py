"""How often the host waits, launches, and bytes at the peak, by the counters of the tests' pretend device.

python -m benchmarks device     # it needs g++; the tables of docs/cost.md

By itself alone: torch starts the threads of devices with the first backward pass of a process.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import bathyscope as bs
from tests.device.pretend import PretendDevice, load

Case = tuple[nn.Module, tuple[Tensor, Tensor], Callable[[Tensor, Tensor], Tensor]]
Step = Callable[[], None]

_DEVICE = "pretend:0"


def lines() -> Iterator[dict[str, Any]]:
    """Of `diagnose` and `watch` what they do beside a bare step, of memory sizes of the parameters."""
    torch.set_num_threads(1)
    device = load()
    torch.__future__.set_swap_module_params_on_conversion(True)
    for name, make, kind in (
        ("MLP of 21 layers × 64", _mlp, "adamw"),
        ("resnet-20", lambda: _images("resnet-20", 8), "adamw"),
        ("preresnet-29", lambda: _images("preresnet-29", 4), "sgd"),
        ("preresnet-29", lambda: _images("preresnet-29", 4), "adamw"),
        ("gpt-12", lambda: _tokens("gpt-12"), "adamw"),
        ("gpt-4", lambda: _tokens("gpt-4"), "adamw"),
        ("MLP of 13 layers × 384", lambda: _mlp(12, 384, 8), "adamw"),
        ("MLP of 13 layers × 768", lambda: _mlp(12, 768, 8), "adamw"),
    ):
        yield {**_diagnosed(device, make(), kind), "case": f"diagnose, {name}, {kind}"}
    for name, make, kind in (
        ("MLP of 21 layers × 64", _mlp, "sgd"),
        ("preresnet-29", lambda: _images("preresnet-29", 4), "sgd"),
        ("gpt-12", lambda: _tokens("gpt-12"), "adamw"),
    ):
        yield {**_watched(device, make(), kind), "case": f"watch, {name}, {kind}"}
    for call in ("standard", "full", "forecast"):
        for kind in ("sgd", "adamw"):
            yield {**_memory(device, call, kind), "case": f"memory, {call}, {kind}"}


def _diagnosed(device: PretendDevice, case: Case, kind: str) -> dict[str, Any]:
    model, batch, loss = case
    optimizer, step = _training(case, kind)
    blocks = len(bs.blocks_of(model, batch[0]))
    with device.counting() as bare:
        step()
    with device.counting() as counts:
        bs.diagnose(model, batch, loss=loss, optimizer=optimizer)
    return {
        "benchmark": "device",
        "waits": counts.synchronizations,
        "waits_per_block": round(counts.synchronizations / blocks, 2),
        "launches_of_a_step": round(counts.launches / bare.launches, 2),
    }


def _watched(device: PretendDevice, case: Case, kind: str) -> dict[str, Any]:
    _, step = _training(case, kind)
    with device.counting() as bare:
        step()
    cheap: Counter[int] = Counter()
    full = []
    with bs.watch(case[0], every=25):
        for number in range(110):
            with device.counting() as counts:
                step()
            waits = counts.synchronizations - bare.synchronizations
            if number >= 25 and number % 25 == 0:
                full.append((waits, round(counts.launches / bare.launches, 2)))
            elif number >= 25:
                cheap[waits] += 1
    return {
        "benchmark": "device",
        "waits_of_cheap_steps": dict(sorted(cheap.items())),
        "waits_of_a_full_step": max(waits for waits, _ in full),
        "launches_of_a_full_step": max(launches for _, launches in full),
    }


def _memory(device: PretendDevice, call: str, kind: str) -> dict[str, Any]:
    case = model, batch, _ = _mlp(12, 384, 8)
    optimizer, _ = _training(case, kind)
    optimizer.zero_grad()
    gc.collect()
    with device.counting() as counts:
        if call == "forecast":
            bs.forecast(model, [batch], optimizer=optimizer, spend=8)
        else:
            bs.diagnose(model, batch, optimizer=optimizer, probes=call, steps=2)
    sizes = counts.peak / sum(p.nbytes for p in model.parameters())
    return {"benchmark": "device", "sizes_of_the_parameters": round(sizes, 2)}


def _training(case: Case, kind: str) -> tuple[torch.optim.Optimizer, Step]:
    """An optimizer that has taken a step, and what takes the next one."""
    model, batch, loss = case
    optimizer: torch.optim.Optimizer
    if kind == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss(model(batch[0]), batch[1]).backward()
        optimizer.step()

    step()
    return optimizer, step


def _mlp(depth: int = 20, width: int = 64, samples: int = 64) -> Case:
    torch.manual_seed(0)
    layers = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(width, 10)).to(_DEVICE)
    batch = torch.randn(samples, width).to(_DEVICE), torch.randint(10, (samples,)).to(_DEVICE)
    return model, batch, F.cross_entropy


def _images(name: str, samples: int) -> Case:
    torch.manual_seed(0)
    model = bs.nets.build(name, num_classes=4, width=4, seed=0, device=_DEVICE)
    x, y = torch.randn(samples, 3, 8, 8), torch.randint(4, (samples,))
    return model, (x.to(_DEVICE), y.to(_DEVICE)), F.cross_entropy


def _tokens(name: str) -> Case:
    torch.manual_seed(0)
    model = bs.nets.build(name, width=32, vocabulary=64, context=16, seed=0, device=_DEVICE)
    tokens = torch.randint(64, (4, 17)).to(_DEVICE)

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(output.flatten(0, 1), targets.flatten())

    return model, (tokens[:, :-1], tokens[:, 1:]), loss
