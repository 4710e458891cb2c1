"""What is known of a training after a prefix of its budget, as one row of numbers, and its end."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from tools.real_trainings.case import Case
from tools.real_trainings.curve import decode_curve
from tools.real_trainings.extrapolation import (
    HIGHEST_END,
    METHODS,
    relative_losses,
    window_means,
)
from tools.real_trainings.labels import Labeled, end_loss, label_records, loss_scale
from tools.real_trainings.optimizers import OPTIMIZERS
from tools.real_trainings.record import Record
from tools.real_trainings.schedules import SCHEDULES

NUM_WINDOWS = 8
SHORTEST_PREFIX = 12


@dataclass(frozen=True)
class Row:
    """One training as a forecast sees it.

    Attributes:
        id: of the case.
        task: of the case; rows of one task are left out together.
        family: of the network.
        features: numbers that are known after the prefix, none of which names the task.
        naive: the end that each method of `METHODS` says.
        end: the relative loss at the end.
        label: trains, lags or fails.
    """

    id: str
    task: str
    family: str
    features: np.ndarray
    naive: dict[str, float]
    end: float
    label: Labeled


def make_rows(
    cases: list[Case], records: list[Record], fraction: float, *, with_held_out: bool = False
) -> list[Row]:
    """A row per labeled training, from the first `fraction` of its budget."""
    chosen = {case.id: case for case in cases if with_held_out or not case.is_held_out}
    kept = [record for record in records if record.id in chosen]
    labels = label_records(chosen.values(), kept)
    return [
        make_row(chosen[record.id], record, labels[record.id, record.seed], fraction)
        for record in kept
        if (record.id, record.seed) in labels
    ]


def make_row(case: Case, record: Record, label: Labeled, fraction: float) -> Row:
    """The row of one training."""
    length = prefix_length(case.budget, fraction)
    scale = loss_scale(record.constant_loss, float(record.loss_curve()[0]))
    whole = relative_losses(record.loss_curve(), record.constant_loss, scale)
    end = end_loss(record.loss_curve()) if record.steps == case.budget else math.inf
    (relative_end,) = relative_losses(np.array([end]), record.constant_loss, scale)
    relative_end = min(relative_end, HIGHEST_END)
    # a run that was cut for non-finite parameters stays at the highest loss
    prefix = np.concatenate([whole, np.full(max(0, length - len(whole)), whole.max())])[:length]
    norms = decode_curve(record.gradient_norms)[:length]
    naive = {
        name: min(method(prefix, case.budget), HIGHEST_END) for name, method in METHODS.items()
    }
    features = np.concatenate(
        [
            _curve_features(prefix),
            list(naive.values()),
            _norm_features(norms),
            _setting_features(case, length),
            [math.log10(record.num_parameters), float(record.steps < length)],
        ]
    )
    return Row(case.id, case.task, case.family, features, naive, float(relative_end), label)


def prefix_length(budget: int, fraction: float) -> int:
    """Steps of the prefix: a fraction of the budget, at least a dozen."""
    return min(budget, max(SHORTEST_PREFIX, round(fraction * budget)))


def _curve_features(prefix: np.ndarray) -> np.ndarray:
    """Windows of the prefix, its best window, its slope over log time, and its noise."""
    edges = np.linspace(0, len(prefix), NUM_WINDOWS + 1).astype(int)
    windows = np.array([prefix[a : max(b, a + 1)].mean() for a, b in itertools.pairwise(edges)])
    steps, means = window_means(prefix, 12)
    slope = np.polyfit(np.log(steps), means, 1)[0]
    late = np.polyfit(np.log(steps[-5:]), means[-5:], 1)[0]
    noise = np.abs(np.diff(prefix)).mean() / math.sqrt(2)
    last = prefix[-max(3, len(prefix) // 4) :]
    levels = np.array([*windows, windows.min(), prefix[0]])
    # seen from where the curve is now, a fall looks alike in all tasks
    return np.array([*levels, *(levels - last.mean()), slope, late, noise, last.std()])


def _norm_features(norms: np.ndarray) -> np.ndarray:
    """Logarithms of the gradient norm at first and at last, and its range."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(norms.astype(np.float64))
    logs = np.clip(np.nan_to_num(logs, nan=6.0, posinf=6.0, neginf=-8.0), -8, 6)
    quarter = max(1, len(logs) // 4)
    return np.array(
        [logs[:quarter].mean(), logs[-quarter:].mean(), logs[-quarter:].mean() - logs[:quarter].mean(),
         logs.std()]
    )  # fmt: skip


def _setting_features(case: Case, length: int) -> np.ndarray:
    """Rates used so far and to come, budget, batch size, clipping and the optimizer."""
    factors = np.array(
        [SCHEDULES[case.setting.schedule](s, case.budget) for s in range(case.budget)]
    )
    rate = case.setting.learning_rate
    optimizer = [float(case.setting.optimizer == name) for name in OPTIMIZERS]
    return np.array(
        [
            math.log10(rate),
            math.log10(rate * factors[:length].mean()),
            factors[length - 1],
            factors[:length].sum() / factors.sum(),
            factors[-max(1, case.budget // 20) :].mean(),
            math.log10(case.budget),
            math.log10(case.setting.batch_size),
            0.0 if case.setting.clip is None else 1.0,
            *optimizer,
        ]
    )
