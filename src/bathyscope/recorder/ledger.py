"""The ledger: what a training loop did, one row per step of an optimizer, with no word from the user.

It listens at torch's own entry points and around the calls of the models that are trained, and reads a few
entries of each parameter now and then. It changes nothing and never raises into the loop.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from bathyscope.core.caller import user_line
from bathyscope.core.errors import in_a_line
from bathyscope.core.global_state import is_measuring
from bathyscope.core.hooks import Hooks
from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.nested import tensors_in
from bathyscope.recorder.entry_points import listen
from bathyscope.recorder.first_step import FirstStepRecorder
from bathyscope.recorder.ledger_data import DataLedger
from bathyscope.recorder.ledger_losses import BackwardLedger
from bathyscope.recorder.ledger_models import ModelLedger
from bathyscope.recorder.ledger_ranks import RankLedger, parameters_by_name
from bathyscope.recorder.ledger_resume import ResumeLedger
from bathyscope.recorder.ledger_schedules import ScheduleLedger
from bathyscope.recorder.ledger_steps import StepLedger

_ONE_PHASE, _LATER_STEPS = 8, 2
"""Steps after which a new optimizer of other parameters begins another training, and how many are copied."""


class Ledger:
    """Keeps the record of a loop between `start` and `stop`; also a context manager.

    Args:
        models: to observe from the first call on; those that are trained are found in any case.
        most_steps: after this many steps of optimizers it stops by itself; None for no end.
        copies_first_step: whether `first_step` is to copy what the first step is made of.
        dense: steps after which most of those like the ones before them are only counted; None for never.

    Attributes:
        record: what was seen so far, in plain numbers.
        first_step: the copy of the first step, where one is made.
        later_steps: the same of models whose training begins after that of the first one.

    Examples:
        >>> net = nn.Linear(3, 1)
        >>> with Ledger([net]) as ledger:
        ...     optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        ...     for _ in range(3):
        ...         optimizer.zero_grad()
        ...         net(torch.ones(2, 3)).mean().backward()
        ...         optimizer.step()
        >>> [(row.lr, row.num_moved, row.was_cleared) for row in ledger.record.rows]
        [(0.1, 2, True), (0.1, 2, True), (0.1, 2, True)]
    """

    def __init__(
        self,
        models: Iterable[nn.Module] = (),
        *,
        most_steps: int | None = None,
        copies_first_step: bool = False,
        dense: int | None = None,
    ) -> None:
        self.record = LoopRecord()
        self.most_steps = most_steps
        self.is_active = False
        self._given = [weakref.ref(model) for model in models]
        self._hooks = Hooks()
        self._stop_listening = _nothing
        self.models = ModelLedger(self.record, self._hooks)
        self.data = DataLedger(self.record)
        self.steps = StepLedger(self.record, self.models, dense=dense)
        self.backward = BackwardLedger(self.record, self.steps)
        self.schedules = ScheduleLedger(self.record, self.steps)
        self.ranks = RankLedger(self.record, lambda: parameters_by_name(self.models.trained()))
        self.resume = ResumeLedger(self.record)
        self.first_step = FirstStepRecorder(self.steps.optimizers) if copies_first_step else None
        self.later_steps: list[FirstStepRecorder] = []
        self.models.on_pass = self._on_pass
        self.models.on_output = self._on_output
        self.models.on_evaluation = self.data.evaluated
        self.handlers: Mapping[str, Callable[..., None]] = self._all_handlers()

    def __enter__(self) -> "Ledger":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to listen."""
        if self.is_active:
            return
        self.is_active = True
        self._stop_listening = listen(self)
        self._hooks.before_step(None, self._before_step)
        self._hooks.after_step(None, self._after_step)
        for reference in self._given:
            model = reference()
            if model is not None:
                self.models.observe(model)

    def stop(self) -> None:
        """Put everything back; the record stays. A second call does nothing."""
        if not self.is_active:
            return
        self.is_active = False
        self._stop_listening()
        self._hooks.remove()
        for copying in (self.first_step, *self.later_steps):
            if copying is not None:
                copying.stop()
                self.record.misread_losses += [] if copying.misread is None else [copying.misread]
                self.record.constant_terms += [] if copying.constant is None else [copying.constant]
        try:
            self.models.finish()
            self.data.finish()
            self.ranks.finish()
            self.steps.finish()
        except Exception as error:
            self.record.notes.append(f"The end of the loop was not read: {in_a_line(error)}.")

    def failed(self, error: Exception) -> None:
        """Stop, and say so in the record: the training continues unobserved."""
        self.record.notes.append(
            f"Observation ended at step {self.record.steps}: {in_a_line(error)}."
        )
        self.stop()

    @property
    def wants_lines(self) -> bool:
        """At steps that are looked at."""
        return self.steps.is_looked_at

    @property
    def awaits_backward(self) -> bool:
        """Unless it is one as all before it."""
        return not self.backward.is_usual

    def _all_handlers(self) -> dict[str, Callable[..., None]]:
        """Which part of the ledger hears of what, by the names of `EVENTS`."""
        return {
            "optimizer_made": self._optimizer_made,
            "gradients_cleared": self.steps.cleared,
            "before_backward": self._before_backward,
            "after_backward": self.backward.after,
            "clipped": self.backward.clipped,
            "loss_scaled": self._loss_scaled,
            "code_compiled": self._code_compiled,
            "unscaled": self.backward.unscaled,
            "scaler_stepped": self.steps.scaler_stepped,
            "scheduler_made": self.schedules.made,
            "scheduler_stepped": self.schedules.stepped,
            "set_to_eval": self.models.set_to_eval,
            "before_load": self.models.before_load,
            "after_load": self._after_load,
            "loader_made": self.data.loader_made,
            "loader_iterated": self.data.iterated,
            "batch_loaded": self.data.loaded,
            "optimizer_loaded": self._optimizer_loaded,
            "scheduler_loaded": self._scheduler_loaded,
            "file_loaded": self.resume.file_loaded,
            "seeded": self.resume.seeded,
            "random_state_set": partial(self.resume.used, "random state"),
            "reduced": self.ranks.reduced,
        }

    def _optimizer_made(self, optimizer: torch.optim.Optimizer, line: str | None) -> None:
        """A new optimizer: the models that hold its parameters are looked for."""
        self.steps.made(optimizer, line)
        copying = self._copying
        is_another = self.steps.track(optimizer).use.replaces is None
        is_later = self.record.steps >= _ONE_PHASE and len(self.later_steps) < _LATER_STEPS
        if copying is not None and copying.is_over and is_another and is_later:
            self.later_steps.append(FirstStepRecorder(self.steps.optimizers))

    @property
    def _copying(self) -> FirstStepRecorder | None:
        """What copies a first step now."""
        return self.later_steps[-1] if self.later_steps else self.first_step

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self.is_active and not torch.compiler.is_compiling() and not is_measuring():
            try:
                if (copying := self._copying) is not None:
                    copying.release()
                closure = kwargs.get("closure") if "closure" in kwargs else (*args, None, None)[1]
                line = user_line() if self.steps.wants_line(optimizer) else None
                self.steps.before(optimizer, line, has_closure=closure is not None)
                self.ranks.before_step()
            except Exception as error:
                self.failed(error)

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self.is_active and not torch.compiler.is_compiling() and not is_measuring():
            try:
                self.steps.after(optimizer)
                self.schedules.updated(optimizer)
                if self.most_steps is not None and self.record.steps >= self.most_steps:
                    self.stop()
            except Exception as error:
                self.failed(error)

    def _before_backward(self, root: object, line: str | None) -> None:
        if (copying := self._copying) is not None:
            copying.before_backward(root)
        self.backward.before(root, line)
        self.ranks.before_backward()

    def _loss_scaled(self, scaler: torch.amp.GradScaler, loss: object, scaled: object) -> None:
        self.backward.scaled(scaler)
        if (copying := self._copying) is not None:
            copying.loss_scaled(loss, scaled)

    def _code_compiled(self, what: object) -> None:
        if (copying := self._copying) is not None:
            copying.compiled(what)

    def _after_load(self, module: nn.Module, state: object, result: object) -> None:
        self.models.after_load(module, state, result)
        self.resume.weights_loaded()

    def _optimizer_loaded(self, optimizer: torch.optim.Optimizer) -> None:
        self.steps.loaded(optimizer)
        self.resume.used("optimizer")

    def _scheduler_loaded(self, scheduler: LRScheduler) -> None:
        self.schedules.loaded(scheduler)
        self.resume.used("schedule")

    def _on_pass(
        self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        inputs = (*args, *kwargs.values())
        self.data.seen(inputs, is_looked_at=self.steps.is_looked_at)
        if self.ranks.wants_batch:
            for tensor in tensors_in(inputs):
                self.ranks.batch_seen(tensor)
                break
        if (copying := self._copying) is not None:
            copying.before_pass(module, args, kwargs)

    def _on_output(self, output: object) -> None:
        if output is not None:
            self.data.watch_output(output, is_looked_at=self.steps.is_looked_at)
        if (copying := self._copying) is not None:
            copying.after_pass(output)


def _nothing() -> None:
    """Nothing to stop."""
