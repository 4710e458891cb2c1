"""Whether a training fails, lags or trains, from its record and those of its group.

All losses are made comparable by one scale: *progress* is 0 at the constant baseline and 1 at the
best end that any setting of the same network reached at the same budget, so that it means the same
for cross-entropies, squared errors, bounds and negative rewards.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bathyscope.foresight.extrapolation import end_steps, loss_scale
from tools.real_trainings.case import Case
from tools.real_trainings.record import Record

Label = Literal["trains", "lags", "fails"]
Reason = Literal[
    "", "non-finite", "diverged", "stalled", "fell back", "behind", "no setting trains"
]

STALLED = 0.1
"""Less than a tenth of the way from the constant baseline to the best end of the group: what such a
network outputs is hardly better than a constant. A tenth is above the noise of an end: the README has
the median difference between two seeds of one setting, a few per cent of the way at most."""

FELL_BACK = 0.5
"""More than half of the largest progress lost again at the end."""

LAGS = 0.7
"""Less than 70 % of the way that another setting goes at the same budget: far ahead, where two seeds
of one setting differ by a few per cent."""

LEARNABLE = 0.05
"""The best end of a group must lie below the constant baseline by 5 % of the loss's scale; otherwise
none of its settings learned anything and there is no way to measure progress along."""


@dataclass(frozen=True)
class Labeled:
    """The label of one training.

    Attributes:
        label: trains, lags or fails.
        reason: which rule decided; empty for trains.
        progress: of the end, 0 at the constant baseline and 1 at the best end of the group.
        end: the training loss at the end.
        best: the best end of the group.
    """

    label: Label
    reason: Reason
    progress: float
    end: float
    best: float


def end_loss(losses: np.ndarray) -> float:
    """Mean training loss of the last steps; infinite where one of them is non-finite."""
    last = np.asarray(losses[-end_steps(len(losses)) :], dtype=np.float64)
    return float(last.mean()) if np.isfinite(last).all() else float("inf")


def label_curve(
    losses: np.ndarray, *, constant: float, best: float, scale: float, is_cut: bool
) -> Labeled:
    """The label of one curve of training losses.

    Args:
        losses: training loss of each step that was run.
        constant: the constant baseline's loss.
        best: the best end among the settings of the same network and budget.
        scale: the size of a loss of this task; see `loss_scale`.
        is_cut: the run ended early for non-finite parameters.
    """
    end = float("inf") if is_cut else end_loss(losses)
    way = constant - best
    if way <= LEARNABLE * scale:
        # nobody learned: there is no way to measure progress along
        reason: Reason = "non-finite" if not np.isfinite(end) else "no setting trains"
        return Labeled("fails", reason, 0.0, end, best)
    if not np.isfinite(end):
        return Labeled("fails", "non-finite", float("-inf"), end, best)
    progress = (constant - end) / way
    largest = (constant - _smallest_window(losses)) / way
    if progress < -1.0 and end > _first(losses):
        return Labeled("fails", "diverged", progress, end, best)
    if largest > 2 * STALLED and progress < FELL_BACK * largest:
        return Labeled("fails", "fell back", progress, end, best)
    if progress < STALLED:
        return Labeled("fails", "stalled", progress, end, best)
    if progress < LAGS:
        return Labeled("lags", "behind", progress, end, best)
    return Labeled("trains", "", progress, end, best)


def label_records(
    cases: Iterable[Case], records: Iterable[Record]
) -> dict[tuple[str, int], Labeled]:
    """Labels by case and seed, for the groups of one network and seed that are complete.

    The best end is that of the same seed, which begins at the same weights, except for InfoNCE:
    its constant baseline depends on the batch size, and so every end is measured by its own
    baseline, and the best by the largest fraction of a baseline that is gone.
    """
    by_id = {case.id: case for case in cases}
    sizes: Mapping[str, int] = _count(case.network_id for case in by_id.values())
    groups: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        groups[by_id[record.id].network_id, record.seed].append(record)
    labels = {}
    for (network_id, seed), group in groups.items():
        if len(group) < sizes[network_id]:
            continue
        for record, labeled in zip(group, _label_group(group, by_id), strict=True):
            labels[record.id, seed] = labeled
    return labels


def _label_group(group: list[Record], by_id: Mapping[str, Case]) -> list[Labeled]:
    ends = [
        end_loss(r.loss_curve()) if r.steps == by_id[r.id].budget else float("inf") for r in group
    ]
    # the best is carried from one batch size to another in units of the own constant baseline
    relative = [end - r.constant_loss for end, r in zip(ends, group, strict=True)]
    if len({r.constant_loss for r in group}) > 1:
        relative = [gap / abs(r.constant_loss) for gap, r in zip(relative, group, strict=True)]
        bests = [r.constant_loss + min(relative) * abs(r.constant_loss) for r in group]
    else:
        bests = [r.constant_loss + min(relative) for r in group]
    return [
        label_curve(
            record.loss_curve(),
            constant=record.constant_loss,
            best=best,
            scale=loss_scale(record.constant_loss, _first(record.loss_curve())),
            is_cut=record.steps < by_id[record.id].budget,
        )
        for record, best in zip(group, bests, strict=True)
    ]


def _first(losses: np.ndarray) -> float:
    return float(losses[0])


def _smallest_window(losses: np.ndarray) -> float:
    """The smallest mean over windows as long as the end."""
    length = end_steps(len(losses))
    # no running sums: after a loss of 1e30 they would be zero for all that follows
    windows = np.lib.stride_tricks.sliding_window_view(losses.astype(np.float64), length)
    means = windows.mean(1)
    finite = means[np.isfinite(means)]
    return float(finite.min()) if len(finite) else float("inf")


def _count(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for name in names:
        counts[name] += 1
    return counts
