"""The learning rate as it was set and as it was in effect, over the steps of a loop."""

import math
import statistics
from collections.abc import Sequence

from bathyscope.core.loop_record import LoopRecord, StepRow
from bathyscope.report.record import Curve


def settings_curves(record: LoopRecord) -> dict[str, Curve]:
    """Learning rate as set and as in effect of the optimizer with the most steps, by their names."""
    stepped = sorted((o for o in record.optimizers if o.steps), key=lambda o: -o.steps)
    if not stepped:
        return {}
    rows = record.optimizer_rows(stepped[0].index)
    as_set, in_effect = effective_settings(rows)
    return {"learning rate": as_set, f"learning rate in effect{_factors(rows)}": in_effect}


def effective_settings(
    rows: Sequence[StepRow],
) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """The learning rate as set, and times clip factor, loss scale and accumulation, by step.

    How means are weighted is read at some steps only; in between it is taken to stay.
    """
    as_set: list[tuple[int, float]] = []
    in_effect: list[tuple[int, float]] = []
    weight: float | None = None
    for row in rows:
        weight = row.gradient_weight if row.gradient_weight is not None else weight
        value = row.effective_lr
        if row.gradient_weight is None and weight is not None:
            value *= weight
        if math.isfinite(row.lr):
            as_set.append((row.step, row.lr))
        if math.isfinite(value):
            in_effect.append((row.step, value))
    return as_set, in_effect


def _factors(rows: Sequence[StepRow]) -> str:
    """What makes the difference, of what was seen."""
    seen = {
        "clip factor": any(r.clip_factor not in (None, 1.0) for r in rows),
        "loss scale": any(r.left_scale not in (None, 1.0) for r in rows),
        "accumulation": any(abs((r.gradient_weight or 1.0) - 1) > 0.05 for r in rows),
    }
    return "".join(f" × {name}" for name, is_seen in seen.items() if is_seen)


def loss_divisor(record: LoopRecord) -> float:
    """By what the losses of micro-batches were divided before their backward passes; 1 where by nothing."""
    for use in record.optimizers:
        several = [number for number, _ in use.micro_batches.most_common() if number > 1]
        if several and use.mean_weights:
            number = several[0]
            return max(1.0, number / statistics.median(use.mean_weights))
    return 1.0
