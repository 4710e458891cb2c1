"""What the ledger of a loop costs: CPU time of steps with it over that without.

The time inside of what the ledger hangs on a loop is added up, which the noise of the machine changes
less than a difference of two runs. `first_steps` is the ratio over the first 16, all of which are looked at.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import nets
from bathyscope.recorder import entry_points
from bathyscope.recorder.ledger import Ledger
from bathyscope.recorder.ledger_data import DataLedger
from bathyscope.recorder.ledger_models import ModelLedger

_FIRST = 16


def lines(*, rounds: int = 1) -> Iterator[dict[str, Any]]:
    """A small network whose step takes about 3 ms, a residual network of 164 layers, a GPT of 12 blocks."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = torch.randn(256, 256), torch.randint(10, (256,))

    def mlp() -> nn.Module:
        layers = [part for _ in range(3) for part in (nn.Linear(256, 256), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(256, 10))

    yield _cost("mlp of 4 layers", mlp, lambda m: F.cross_entropy(m(x), y), 320 * rounds)
    images, classes = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    yield _cost(
        "preresnet-164, 32x32",
        lambda: nets.build("preresnet-164", num_classes=10),
        lambda m: F.cross_entropy(m(images), classes),
        8 * rounds,
    )
    tokens = torch.randint(256, (16, 65))
    yield _cost(
        "gpt-12, width 192, 64 tokens",
        lambda: nets.build("gpt-12", vocabulary=256, width=192, heads=6, context=64),
        lambda m: F.cross_entropy(m(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()),
        8 * rounds,
    )


def _cost(
    case: str,
    build: Callable[[], nn.Module],
    loss: Callable[[nn.Module], Tensor],
    num: int,
) -> dict[str, Any]:
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    inside, inside_first, began = Inside(), 0.0, 0.0
    with inside, Ledger([model]) as ledger:
        for step in range(_FIRST + num):
            if step == _FIRST:
                inside_first, began = inside.seconds, time.process_time()
            optimizer.zero_grad()
            loss(model).backward()
            optimizer.step()
        total = time.process_time() - began
    later = inside.seconds - inside_first
    usual = (total - later) / num
    return {
        "benchmark": "ledger",
        "case": case,
        "ratio": round(total / (total - later), 4),
        "milliseconds": round(1e3 * usual, 2),
        "first_steps": round(1 + inside_first / (_FIRST * usual), 3),
        "rows": len(ledger.record.rows),
    }


class Inside:
    """CPU time inside of the ledger: what listeners, hooks and observers of calls take."""

    def __init__(self, *others: tuple[Any, str]) -> None:
        self.seconds = 0.0
        self._others = others
        self._depth = 0
        self._originals: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> "Inside":
        for owner, name in (
            (entry_points, "_notify"),
            (entry_points, "user_line"),
            (Ledger, "_before_step"),
            (Ledger, "_after_step"),
            (ModelLedger, "_before_call"),
            (ModelLedger, "_after_call"),
            (DataLedger, "_read_labels"),
            *self._others,
        ):
            original = getattr(owner, name)
            self._originals.append((owner, name, original))
            setattr(owner, name, self._timed(original))
        return self

    def __exit__(self, *exception: object) -> None:
        for owner, name, original in self._originals:
            setattr(owner, name, original)

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            began = time.thread_time()
            try:
                return original(*args, **kwargs)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.thread_time() - began

        return timed
