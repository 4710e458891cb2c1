"""`diagnose` in training steps of the network itself, with the optimizer given.

`ratio` is the smallest CPU time of a diagnosis over the smallest of a training step: what other work on the
machine takes from the caches only makes both longer; `median_ratio` is the median over rounds in which the
two ran one after the other. Small networks are the hard case: their steps are short, and what is done block
by block in Python, and the eigenvalues of Gram matrices, are not.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import bathyscope
from bathyscope import nets
from bathyscope.core.batch import Batch
from benchmarks.interleaved import interleaved


def lines(*, rounds: int = 1) -> Iterator[dict[str, Any]]:
    """Standard and full diagnoses of MLPs, convolutional networks and a transformer."""
    torch.set_num_threads(1)
    for (name, probes), repeats in _REPEATS.items():
        yield _line(name, _CASES[name], probes, repeats=rounds * repeats)


def _line(
    name: str, build: Callable[[], tuple[nn.Module, Batch]], probes: str, *, repeats: int
) -> dict[str, Any]:
    torch.manual_seed(0)
    model, batch = build()
    loss = _loss_of_tokens if batch[1].ndim > 1 else F.cross_entropy
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        loss(model(batch[0]), batch[1]).backward()
        optimizer.step()

    step()  # the optimizer has its state
    cases = {
        "diagnose": lambda: bathyscope.diagnose(
            model, batch, loss=loss, optimizer=optimizer,
            probes="full" if probes == "full" else "standard",
        ),
        "step": step,
    }  # fmt: skip
    times = interleaved(cases, repeats=repeats)
    return {
        "benchmark": "diagnose",
        "case": f"{name}: {probes}",
        "ratio": round(times["step"].fastest_ratio_to(times["diagnose"]), 2),
        "median_ratio": round(times["step"].ratio_to(times["diagnose"]), 2),
        "cpu_seconds": round(times["diagnose"].median_cpu, 4),
        "wall_seconds": round(times["diagnose"].median_wall, 4),
        "step_cpu_seconds": round(times["step"].median_cpu, 5),
        "repeats": repeats,
    }


def _mlp(width: int) -> tuple[nn.Module, Batch]:
    layers: list[nn.Module] = [nn.Linear(64, width), nn.ReLU()]
    for _ in range(18):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 10))
    return model, (torch.randn(64, 64), torch.randint(10, (64,)))


def _images(name: str, size: int, *, samples: int = 32) -> tuple[nn.Module, Batch]:
    images = torch.randn(samples, 3, size, size)
    return nets.build(name, num_classes=10), (images, torch.randint(10, (samples,)))


def _sequences(name: str) -> tuple[nn.Module, Batch]:
    tokens = torch.randint(64, (8, 33))
    return nets.build(name, vocabulary=64, context=32), (tokens[:, :-1], tokens[:, 1:])


def _loss_of_tokens(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


_CASES: dict[str, Callable[[], tuple[nn.Module, Batch]]] = {
    "MLP of 20 layers, width 64, batch 64": lambda: _mlp(64),
    "MLP of 20 layers, width 128, batch 64": lambda: _mlp(128),
    "resnet-20, 16x16, batch 32": lambda: _images("resnet-20", 16),
    "resnet-56, 16x16, batch 32": lambda: _images("resnet-56", 16),
    "vit-6, 32x32, batch 32": lambda: _images("vit-6", 32),
    "gpt-12, 8 sequences of 32": lambda: _sequences("gpt-12"),
    "preresnet-164, 32x32, batch 64": lambda: _images("preresnet-164", 32, samples=64),
}
# Few of the long ones: about a minute of CPU time together.
_REPEATS = {
    **{(name, "standard"): 7 for name in _CASES},
    ("preresnet-164, 32x32, batch 64", "standard"): 2,
    ("MLP of 20 layers, width 64, batch 64", "full"): 5,
    ("MLP of 20 layers, width 128, batch 64", "full"): 5,
    ("resnet-20, 16x16, batch 32", "full"): 3,
    ("vit-6, 32x32, batch 32", "full"): 2,
}
