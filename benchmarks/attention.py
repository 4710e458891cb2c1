"""The standard measurements of a transformer, with and without those of its attention.

`ratio` is (CPU time with attention) / (CPU time without), the median over rounds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor

from bathyscope import measure, nets
from bathyscope.core.probe import Observer
from benchmarks.interleaved import interleaved

_SIZES = (("gpt-12", 128, 128, 16), ("gpt-24", 64, 64, 32), ("gpt-6", 256, 256, 4))


def lines(*, repeats: int = 7) -> Iterator[dict[str, Any]]:
    """One line per network."""
    torch.set_num_threads(1)
    for name, width, context, batch in _SIZES:
        times = interleaved(_cases(name, width, context, batch), repeats=repeats)
        yield {
            "benchmark": "attention",
            "case": f"{name}, width {width}, {context} tokens, batch {batch}: standard",
            "ratio": round(times["without"].ratio_to(times["with"]), 3),
            "noise": round(times["without"].spread_to(times["with"]), 3),
            "cpu_seconds": round(times["with"].median_cpu, 3),
            "repeats": repeats,
        }


def _cases(name: str, width: int, context: int, batch: int) -> dict[str, Callable[[], object]]:
    model = nets.build(name, seed=0, width=width, context=context, vocabulary=100)
    tokens = torch.randint(100, (batch, context))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def standard() -> object:
        return measure.standard(model, (tokens, tokens), loss=_loss, optimizer=optimizer)

    def without() -> object:
        with patch("bathyscope.measure.standard.AttentionObserver", _NoAttention):
            return standard()

    return {"with": standard, "without": without}


class _NoAttention(Observer):
    """Observes nothing."""

    watches = ()

    def __init__(self, model: object, blocks: object) -> None:
        pass

    @contextmanager
    def hooked(self) -> Iterator[None]:
        yield

    def look_at(self, batch: object) -> None:
        pass

    def measurement(self) -> None:
        return None


def _loss(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
