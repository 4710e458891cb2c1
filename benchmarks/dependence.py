"""The standard measurements with and without who depends on whom and what the loss asks for.

`ratio` is (CPU time with) / (CPU time without), the median over rounds.
"""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import measure, nets
from bathyscope.core.records import Measurement
from benchmarks.interleaved import interleaved


def lines(*, repeats: int = 7) -> Iterator[dict[str, Any]]:
    """One line per network."""
    torch.set_num_threads(1)
    for name, (model, batch, loss) in _setups().items():
        times = interleaved(_cases(model, batch, loss), repeats=repeats)
        yield {
            "benchmark": "dependence",
            "case": f"{name}: standard",
            "ratio": round(times["without"].ratio_to(times["with"]), 3),
            "noise": round(times["without"].spread_to(times["with"]), 3),
            "cpu_seconds": round(times["with"].median_cpu, 3),
            "repeats": repeats,
        }


def _setups() -> dict[str, tuple[nn.Module, tuple[Tensor, Tensor], Callable[..., Tensor]]]:
    images = torch.randn(64, 3, 32, 32), torch.randint(10, (64,))
    tokens = torch.randint(100, (16, 128))
    layers = [layer for _ in range(20) for layer in (nn.Linear(64, 64), nn.ReLU())]
    mlp = nn.Sequential(*layers, nn.Linear(64, 10))
    return {
        "resnet-20, batch 64": (nets.build("resnet-20", seed=0), images, F.cross_entropy),
        "gpt-6, width 128, 128 tokens, batch 16": (
            nets.build("gpt-6", seed=0, width=128, context=128, vocabulary=100),
            (tokens, tokens.roll(-1, 1)),
            _token_loss,
        ),
        "MLP of 20 layers, batch 256": (
            mlp,
            (torch.randn(256, 64), torch.randint(10, (256,))),
            F.cross_entropy,
        ),
    }


def _cases(
    model: nn.Module, batch: tuple[Tensor, Tensor], loss: Callable[..., Tensor]
) -> dict[str, Callable[[], object]]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def standard() -> object:
        return measure.standard(model, batch, loss=loss, optimizer=optimizer)

    def without() -> object:
        where = "bathyscope.measure.standard"
        with (
            patch(f"{where}.dependence_measurements", _none),
            patch(f"{where}.LossReader", _NoReader),
        ):
            return standard()

    return {"with": standard, "without": without}


class _NoReader:
    """Reads nothing."""

    def __init__(self, *given: object) -> None:
        pass

    def __call__(self, output: object, value: object) -> None:
        pass


def _none(*args: object, **options: object) -> tuple[Measurement, ...]:
    return ()


def _token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
