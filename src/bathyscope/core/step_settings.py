"""What stands between a gradient and a step in a loop: schedule, clipping, accumulation, loss scaling."""

import copy
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import nn

from bathyscope.core.arguments import check_count
from bathyscope.core.errors import UsageError, in_a_line, shorten
from bathyscope.core.hooks import Hooks
from bathyscope.core.stepping import check_optimizer

_LOOKED_THROUGH = 1000
"""Steps of a schedule that are looked through, for its first rate other than zero and for its largest."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """How a loop makes a step of its gradients.

    Attributes:
        scheduler: a schedule of the optimizer's learning rate, which may begin at zero.
        clip: largest norm of all gradients together, as `clip_grad_norm_` takes it.
        scaler: a loss scaler; steps are taken on unscaled gradients whatever its scale.
        accumulate: batches whose mean gradient makes a step; of one batch, its own.
        times: what the gradient is multiplied by, as where a loop adds up and does not divide.
    """

    scheduler: Any = None
    clip: float | None = None
    scaler: Any = None
    accumulate: int = 1
    times: float = 1.0

    @property
    def is_plain(self) -> bool:
        """Whether a step is nothing but the optimizer's own."""
        return self.scheduler is None and self.clip is None and self.times == 1.0

    def check(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Raise where they are of another kind, or have no optimizer to belong to.

        Raises:
            UsageError: what was given does not fit.
        """
        check_count("accumulate", self.accumulate, minimum=1)
        if self.clip is not None and (
            not isinstance(self.clip, Real) or isinstance(self.clip, bool) or not self.clip > 0
        ):
            raise UsageError(
                f"clip is the largest norm of the gradient, a number above zero, but "
                f"{shorten(self.clip)} was given."
            )
        if self.scheduler is not None and not (
            hasattr(self.scheduler, "step") and hasattr(self.scheduler, "optimizer")
        ):
            raise UsageError(
                f"scheduler is a schedule of torch.optim.lr_scheduler, but "
                f"{shorten(self.scheduler)} was given."
            )
        if self.scaler is not None and not hasattr(self.scaler, "unscale_"):
            raise UsageError(
                f"scaler is a torch.amp.GradScaler, but {shorten(self.scaler)} was given."
            )
        if optimizer is None:
            if not self.is_plain:
                raise UsageError(
                    "scheduler and clip say how an optimizer steps; give optimizer= too."
                )
            return
        check_optimizer(optimizer)
        if self.scheduler is not None and self.scheduler.optimizer is not optimizer:
            raise UsageError("The scheduler belongs to another optimizer than the one given.")

    @contextmanager
    def applied_to(self, optimizer: torch.optim.Optimizer | None) -> Iterator[None]:
        """Within, a step of the optimizer, and of copies of it, is one of the loop.

        The learning rate is the first of the schedule that is not zero: a warm-up from zero begins there.
        """
        if optimizer is None or self.is_plain:
            yield
            return
        before = [group.get("lr") for group in optimizer.param_groups]
        with Hooks() as hooks:
            if self.clip is not None or self.times != 1.0:
                hooks.before_step(optimizer, self._prepare)
            for group, lr in zip(optimizer.param_groups, self.first_rates(optimizer), strict=True):
                if lr is not None:
                    group["lr"] = lr
            try:
                yield
            finally:
                for group, lr in zip(optimizer.param_groups, before, strict=True):
                    if lr is not None:
                        group["lr"] = lr

    def first_rates(self, optimizer: torch.optim.Optimizer) -> list[Any]:
        """The learning rate of each group at the first step at which not all are zero."""
        now = [group.get("lr") for group in optimizer.param_groups]
        if self.scheduler is None or any(lr is None or float(lr) != 0.0 for lr in now):
            return now
        try:
            for rates in self._rates_to_come(optimizer, _LOOKED_THROUGH):
                if any(float(lr) != 0.0 for lr in rates):
                    return rates
        except Exception as error:  # a user's own schedule may raise anything, or want a metric
            raise UsageError(
                f"The schedule ({type(self.scheduler).__name__}) cannot be stepped on a copy: "
                f"{in_a_line(error)}; give an optimizer at the learning rate that is meant."
            ) from error
        return now

    def rate_growth(self, optimizer: torch.optim.Optimizer | None, steps: int | None) -> float:
        """How far above the rate of the first step the schedule goes: in each group, the smallest of these.

        One where there is no schedule, or where it cannot be stepped on a copy.
        """
        if optimizer is None or self.scheduler is None:
            return 1.0
        try:
            first = [float(lr) for lr in self.first_rates(optimizer)]
            largest = first
            for rates in self._rates_to_come(
                optimizer, min(steps or _LOOKED_THROUGH, _LOOKED_THROUGH)
            ):
                largest = [max(seen, float(lr)) for seen, lr in zip(largest, rates, strict=True)]
        except Exception:  # a user's own schedule may raise anything, or want a metric
            return 1.0
        return min(
            (high / low for high, low in zip(largest, first, strict=True) if low > 0), default=1.0
        )

    def _rates_to_come(self, optimizer: torch.optim.Optimizer, steps: int) -> Iterator[list[Any]]:
        """The learning rates of the next steps, by a copy of the schedule."""
        memo: dict[int, Any] = {}
        for group in optimizer.param_groups:  # their values do not matter, and may be large
            memo |= {id(p): nn.Parameter(torch.zeros(1, device="cpu")) for p in group["params"]}
        state = {id(optimizer.state): type(optimizer.state)()}
        twin = copy.deepcopy(self.scheduler, memo | state)
        for _ in range(steps):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                twin.step()
            yield [group["lr"] for group in twin.optimizer.param_groups]

    def _prepare(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        """Before a step: multiply and clip, as the loop does."""
        held = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in held if p.grad is not None]
        if self.times != 1.0:
            for gradient in gradients:
                gradient.mul_(self.times)
        if self.clip is not None and math.isfinite(self.clip):
            nn.utils.clip_grad_norm_(held, float(self.clip))
