"""What a forecast costs, in steps of the network's own training.

`ratio` is CPU time of a forecast over that of one training step of the same network, all stages spent
(a rate at which nothing is sure) and where the forecast is sure early.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from bathyscope import foresight, nets
from bathyscope.core import stepping
from benchmarks.interleaved import interleaved

_BATCH = 32


def lines(*, name: str = "preresnet-56", repeats: int = 3) -> Iterator[dict[str, Any]]:
    """A residual network on 8×8 pictures."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nets.build(name, num_classes=10, in_channels=1)
    x, y = torch.randn(32 * _BATCH, 1, 8, 8), torch.randint(10, (32 * _BATCH,))
    batches = list(zip(x.split(_BATCH), y.split(_BATCH), strict=True))
    for case, rate in (("noise for labels, a small rate", 1e-3), ("an absurd rate", 1e8)):
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        twin, stepper = stepping.copy_training(model, torch.optim.SGD(model.parameters(), lr=1e-3))
        spent: list[int] = []

        def whole(optimizer: torch.optim.Optimizer = optimizer, spent: list[int] = spent) -> None:
            spent.append(foresight.forecast(model, batches, optimizer=optimizer).spent)

        def step(twin: Any = twin, stepper: Any = stepper) -> None:
            for batch in batches[:8]:
                stepping.train_over(twin, stepper, [batch], loss=F.cross_entropy)

        times = interleaved({"forecast": whole, "eight steps": step}, repeats=repeats, warmup=1)
        yield {
            "benchmark": "forecast",
            "case": f"{name}, 8x8, batch {_BATCH}, {case}: {spent[-1]} steps spent",
            "ratio": round(8 / times["forecast"].ratio_to(times["eight steps"]), 2),
            "repeats": repeats,
        }
