"""Learning-rate schedules as factors of the largest rate, from step and budget."""

import math
from collections.abc import Callable


def _cosine_warmup(step: int, budget: int) -> float:
    """Linear rise over the first 5 % of the budget, then half a cosine down to 0."""
    warmup = max(1, budget // 20)
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, budget - warmup)))


def _one_cycle(step: int, budget: int) -> float:
    """As PyTorch's OneCycleLR: from 1/25 up over 30 % of the budget, then down to 1/250,000."""
    peak = 0.3 * budget
    if step < peak:
        return _between(1 / 25, 1.0, step / peak)
    return _between(1.0, 4e-6, (step - peak) / max(1.0, budget - peak))


def _between(start: float, end: float, fraction: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * min(1.0, fraction)))


SCHEDULES: dict[str, Callable[[int, int], float]] = {
    "constant": lambda step, budget: 1.0,
    "cosine-warmup": _cosine_warmup,
    "one-cycle": _one_cycle,
    "step": lambda step, budget: 0.1 ** ((step >= 0.5 * budget) + (step >= 0.75 * budget)),
    "linear": lambda step, budget: 1.0 - step / budget,
}
