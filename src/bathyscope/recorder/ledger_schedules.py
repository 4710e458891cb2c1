"""The learning-rate schedules of a loop: how often each is stepped for a step of its optimizer."""

import math
import weakref

import torch
from torch.optim.lr_scheduler import LRScheduler

from bathyscope.core.loop_record import LoopRecord, ScheduleUse
from bathyscope.recorder.ledger_steps import StepLedger

_MOST_METRICS, _MOST_SCHEDULES = 512, 64


class ScheduleLedger:
    """Keeps the records of schedules."""

    def __init__(self, record: LoopRecord, steps: StepLedger) -> None:
        self.record = record
        self.steps = steps
        self._uses: dict[int, tuple[weakref.ref[LRScheduler], ScheduleUse]] = {}
        self._lr: dict[int, float] = {}
        self._since: dict[int, int] = {}  # steps of a schedule since that of its optimizer
        self._set: dict[int, tuple[ScheduleUse, float]] = {}  # by optimizer: the last rate set

    def made(self, scheduler: LRScheduler, line: str | None) -> None:
        """A schedule was constructed."""
        use = self._use(scheduler)
        if use is not None:
            use.created_at = line

    def stepped(self, scheduler: LRScheduler, args: tuple[object, ...], line: str | None) -> None:
        """A schedule was stepped."""
        use = self._use(scheduler)
        if use is None:
            return
        use.steps += 1
        use.stepped_at = line
        if use.optimizer is not None:
            self._set[use.optimizer] = (use, _rate(scheduler.optimizer))
        self._since[use.index] = self._since.get(use.index, 0) + 1
        if use.mode is not None and args and len(use.metrics) < _MOST_METRICS:
            use.metrics.append(_number(args[0]))
            if self._has_fallen(scheduler):
                use.reductions.append(use.steps)

    def loaded(self, scheduler: LRScheduler) -> None:
        """A state dict was loaded into a schedule."""
        use = self._use(scheduler)
        if use is not None:
            use.state_loaded = True

    def _has_fallen(self, scheduler: LRScheduler) -> bool:
        """Whether the learning rate is lower than when this schedule was last stepped."""
        lr = _rate(scheduler.optimizer)
        before = self._lr.get(id(scheduler), -math.inf)
        self._lr[id(scheduler)] = lr
        return lr < before

    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped: count what its schedules did since its last step."""
        if not self._uses:
            return
        index = self.steps.index_of(optimizer)
        last = self._set.get(index)
        if last is not None and math.isfinite(last[1]):
            last[0].compared += 1
            last[0].overwritten += abs(_rate(optimizer) - last[1]) > 1e-6 * abs(last[1])
        for _, use in self._uses.values():
            if use.optimizer == index:
                count = self._since.pop(use.index, 0)
                use.per_update[count] += 1

    def _use(self, scheduler: LRScheduler) -> ScheduleUse | None:
        result = self._uses.get(id(scheduler))
        if result is not None and result[0]() is scheduler:
            return result[1]
        if len(self.record.schedules) >= _MOST_SCHEDULES:
            return None
        optimizer = getattr(scheduler, "optimizer", None)
        use = ScheduleUse(
            index=len(self.record.schedules),
            kind=type(scheduler).__name__,
            optimizer=None if optimizer is None else self.steps.index_of(optimizer),
            mode=getattr(scheduler, "mode", None) if hasattr(scheduler, "patience") else None,
            period=_period(scheduler),
            made_after=self.record.steps,
            base_lr=max(map(_number, getattr(scheduler, "base_lrs", [])), default=math.nan),
        )
        self.record.schedules.append(use)
        self._uses[id(scheduler)] = (weakref.ref(scheduler), use)
        return use


def _rate(optimizer: torch.optim.Optimizer) -> float:
    return max((_number(g.get("lr", math.nan)) for g in optimizer.param_groups), default=math.nan)


def _period(scheduler: LRScheduler) -> int | None:
    """Steps after which a schedule has run its course; None for one that does not say."""
    for name in ("T_max", "total_steps", "total_iters"):
        value = getattr(scheduler, name, None)
        if isinstance(value, int):
            return value
    return None


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
