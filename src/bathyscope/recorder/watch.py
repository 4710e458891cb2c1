"""Watching a training loop from inside: cheap signals at every step, full ones at every k-th."""

import atexit
import math
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bathyscope.core.arguments import check_count, check_flag, check_names, check_path
from bathyscope.core.batch import check_parameters
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import UnbuiltModel, check_takes_hooks, unwrap
from bathyscope.core.errors import UsageError, in_a_line
from bathyscope.core.fetch import fetch
from bathyscope.core.global_state import is_measuring
from bathyscope.core.hooks import CallObserver, Hooks, on_gradient
from bathyscope.core.nested import main_tensor, tensors_in
from bathyscope.core.non_finite import first_non_finite
from bathyscope.core.processes import (
    Processes,
    is_first_process,
    join_if_all_come,
    processes_of,
    waits_for_others,
)
from bathyscope.core.records import Finding
from bathyscope.core.trackers import tracker_of
from bathyscope.core.walks import is_sharded
from bathyscope.recorder.entry_points import listen
from bathyscope.recorder.event import Event
from bathyscope.recorder.groups import parameter_groups
from bathyscope.recorder.ledger import Ledger
from bathyscope.recorder.log import Log
from bathyscope.recorder.loop_findings import loop_findings, not_checked
from bathyscope.recorder.loss_hook import LossHook
from bathyscope.recorder.open_step import OpenStep
from bathyscope.recorder.page import WatchedTraining
from bathyscope.recorder.recording import Recording
from bathyscope.recorder.samples import Row, SampleObserver
from bathyscope.recorder.sketch import can_be_read
from bathyscope.recorder.step_observer import StepObserver, WatchedAttention, find_blocks
from bathyscope.report.tracked import log_findings

if TYPE_CHECKING:
    import pandas as pd

OnEvent = Callable[[Event], None]

# Steps after which a loss is taken for the model's own before its gradient has come to the output, and
# how often that is looked at again.
_HABIT, _CHECKED_AGAIN = 48, 8
# Steps of which the ledger has a row each: writes to the weights are looked for here, too.
_DENSE = 64


class Watch(WatchedTraining):
    """Records what every block does on the passes of a training loop, and notices what happens.

    Made by `watch`. It listens on the forward passes that run in train mode with gradients enabled
    and on the optimizers that hold the model's parameters; a step is one of an optimizer, or a pass
    where no optimizer is ever seen. It never raises into the loop: if it fails, it warns once and
    stops. (What the user's own `on_event` raises is the user's, and passes through.)

    Attributes:
        recording: what was recorded so far; None before the first pass.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int,
        log: Path | None,
        tracker: object | None,
        conditioning: bool,
        blocks: tuple[str, ...] | Blocks | None,
        on_event: OnEvent | None,
    ) -> None:
        self.model = unwrap(model)
        self.every = every
        self.recording: Recording | None = None
        # a compiled model calls its own code, and DataParallel that of copies: not the module inside
        is_called = hasattr(model, "_orig_mod") or isinstance(model, nn.DataParallel)
        self._called = model if is_called else self.model
        self._folder = log
        self._tracker = tracker_of(tracker)
        self._conditioning = conditioning
        self._wanted = blocks
        self._on_event = on_event
        self._log: Log | None = None
        self._hooks = Hooks()
        self._never_raises = _NeverRaises(self._let_go)
        self._ledger = Ledger([model], dense=_DENSE)
        self._calls: CallObserver | None = None
        self._losses = LossHook(self._keep_loss, self._never_raises.stop)
        self._stop_listening: Callable[[], None] = _nothing
        self._is_active = False
        self._is_entered = self._is_started = False
        self._step = OpenStep()
        self._given = model
        self._group: Processes | None = None
        self._was_traced = False  # whether a step was compiled as a whole
        self._habit = 0  # steps in a row of one pass, whose loss has come back to its output
        self._has_attention = True  # as long as no sample has shown that it has none

    def __enter__(self) -> "Watch":
        if self._is_entered:
            raise UsageError(
                "This watch is entered already; make a second one with bathyscope.watch(model)."
            )
        self._is_entered = True
        if not self._is_started:  # it was removed before: it records again
            self._start()
        return self

    def _start(self) -> None:
        if self._folder is not None and is_first_process():
            self._log = Log(self._folder)
        self._is_active = self._is_started = True
        atexit.register(self.remove)  # without a `with` block the program's end is its end
        with self._guard():
            self._group = join_if_all_come(self._given)
            if self._group is None and processes_of(self._given) is not None:
                self._warn_of_part()
        with self._guard():
            if self._is_active:  # else it has stopped: the other processes may not watch
                self._set_hooks()

    def _warn_of_part(self) -> None:
        """Only some of the processes watch."""
        if is_sharded(self.model):
            raise UsageError(
                "the model is in shards, and not every process watches it; enter a watch in each"
            )
        warnings.warn(
            "bathyscope.watch: not every process of the group watches; what is recorded is of this "
            "process's part of the batches. Enter a watch in each to have the whole.",
            stacklevel=4,
        )

    def _set_hooks(self) -> None:
        self._ledger.start()
        check_takes_hooks(self._called, "")
        # a pass that raises is one, too: what sees attention must not outlive it
        self._calls = self._hooks.around_call(
            self._called, before=self._before_pass, after=self._after_pass
        )
        self._hooks.before_step(None, self._before_update)
        self._hooks.after_step(None, self._after_update)
        self._stop_listening = listen(self._losses)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None and self._group is not None:
            self._abandon_step()  # the other processes may be elsewhere: nothing is exchanged
        self.remove()

    def remove(self) -> None:
        """Stop at once: write what is open and take every hook away."""
        self._is_entered = self._is_started = False
        atexit.unregister(self.remove)
        was_traced = self._was_traced or (self._calls is not None and self._calls.was_traced)
        if was_traced and not self.steps:
            warnings.warn(
                "bathyscope.watch recorded nothing: the model ran inside of code compiled by torch.compile. "
                "Watch the compiled model itself, or compile the model alone and not the whole step.",
                stacklevel=3,
            )
        with self._guard():
            if self.recording is not None and not self.recording.counts_updates:
                self._close_step()
            if self._log is not None:
                self._log.flush(sync=True)
            if self.recording is not None:
                self.recording.write_weights()
            if self._tracker is not None and self._is_active:
                log_findings(self._tracker, self.findings, self.steps)
        self._let_go()
        self._ledger.stop()

    @property
    def is_recording(self) -> bool:
        """Whether it still listens: until `remove()`, or the end of its `with` block."""
        return self._is_active

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened so far, in the order of the steps at which it began to show."""
        result = [] if self.recording is None else self.recording.events
        return tuple(sorted(result, key=lambda event: event.step))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the loop, as far as it was watched; severest first.

        They need no blocks: also a model in which none are found has a loop.
        """
        return loop_findings(self._ledger.record)

    @property
    def not_checked(self) -> tuple[str, ...]:
        """What could not be checked of the loop so far, one sentence each."""
        return not_checked(self._ledger.record)

    @property
    def steps(self) -> int:
        """How many were taken so far."""
        if self.recording is None:
            return 0
        # without an optimizer a pass is a step, and the last one is still open
        is_open = bool(self._step.passes) and not self.recording.counts_updates
        return self.recording.steps - self.recording.first_step + is_open

    @property
    def rows(self) -> list[Row]:
        """What was recorded, one row for each sampled step and block."""
        return [] if self.recording is None else list(self.recording.samples.rows())

    @property
    def table(self) -> "pd.DataFrame":
        """The rows as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def _before_pass(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if is_measuring() or not self._called.training or not torch.is_grad_enabled():
            return
        with self._guard():
            if self.recording is None:
                self.recording = self._begin_recording(args, kwargs)
            if self.recording is not None:
                if not self.recording.counts_updates:
                    self._close_step()
                self._open_pass(self.recording, args, kwargs)
        self._hand_out()

    def _begin_recording(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Recording | None:
        if any(nn.parameter.is_lazy(p) for p in self.model.parameters()):
            return None  # the first pass gives them their shapes
        try:
            blocks = find_blocks(self.model, args, kwargs, wanted=self._wanted)
        except UnbuiltModel:
            return None  # the first pass makes what is missing
        groups = parameter_groups(self.model, blocks, group=self._group)
        recording = Recording(self.model, blocks, groups, every=self.every)
        recording.tracker = self._tracker
        norms = groups.weight_norms()  # shards of weights are summed up by all processes together
        if self._log is not None:
            recording.write_to(self._log, norms)
        return recording

    def _open_pass(
        self, recording: Recording, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        if self._step.passes and not recording.groups.has_gradients():
            # what came before was thrown away, as the passes of a GAN for its other network are, or a
            # step that a GradScaler has left out
            if there := self._step.scalars_there():
                self._step.take([number for part in fetch(there) for number in part])
                self._look_for_lost_loss()
            self._abandon_step()
        step = self._step
        step.passes += 1
        step.inputs = (args, kwargs)
        if step.passes > 1:
            return
        recording.look_for_changed_weights()
        if args and type(args[0]) is Tensor and args[0].ndim and args[0].is_floating_point():
            x: Tensor | None = args[0]
            tensors = [args[0]]
        else:
            x = main_tensor(args) if args else main_tensor(kwargs)
            tensors = list(tensors_in((args, kwargs)))
        if x is not None:
            step.take_input(x)
        if tensors and tensors[0].is_cpu and can_be_read(tensors[0]):
            is_main = tensors[0] is x
            recording.take_batch(tensors[0], math.sqrt(step.input_square) if is_main else math.nan)
        step.samples = next((t.shape[0] for t in tensors if t.ndim), 0)
        if recording.is_sampled:
            self._observe(recording.blocks)

    def _observe(self, blocks: Blocks) -> None:
        step = self._step
        step.observer = SampleObserver(
            blocks,
            conditioning=self._conditioning,
            group=self._group,
            is_double=next(self.model.parameters()).dtype == torch.float64,
        )
        # compiled code calls no hooks: the blocks are seen in a pass of their own
        if hasattr(self._called, "_orig_mod") or (self._calls and self._calls.is_compiled):
            with WatchedAttention(step.observer.on_attention):
                first_non_finite(
                    self.model, *step.inputs, blocks=blocks, observers=(step.observer,)
                )
            return
        step.blocks_observer = StepObserver(
            self.model, blocks, step.observer, with_attention=self._has_attention, guard=self._guard
        )
        step.blocks_observer.start()

    def _after_pass(self, output: object) -> None:
        if is_measuring() or self.recording is None:
            return
        step = self._step
        if self._habit >= _HABIT and step.passes == 1 and step.observer is None:
            step.is_usual = self.recording.steps % _CHECKED_AGAIN != 0
            if step.is_usual:
                return
        with self._guard():
            if self._step.blocks_observer is not None:
                self._step.blocks_observer.end_of_pass()
                self._has_attention = self._step.blocks_observer.has_attention
            for tensor in tensors_in(output):
                on_gradient(tensor, self._on_backward)

    def _keep_loss(self, value: Tensor) -> None:
        step = self._step
        step.started_from = value
        step.starts += 1
        if step.is_usual:
            if step.starts == 1:
                self._on_backward(value)
            elif self.recording is not None:  # which is the model's own? not known of this one step
                step.losses = [self.recording.history.last_loss]
            return
        if step.observer is not None:
            step.observer.loss_scale = self._losses.scale

    def _on_backward(self, gradient: Tensor) -> None:
        """A backward pass has come to the model's output: it started from the model's own loss."""
        step = self._step
        with self._guard():
            if step.started_from is None or self.recording is None or not self._is_active:
                return
            value, step.started_from = step.started_from, None
            if value.device.type != "cpu":
                step.losses_there.append(value)  # fetched with the gradients
                return
            step.losses.append(value.item())
            self._look_for_lost_loss()
        self._hand_out()

    def _look_for_lost_loss(self) -> None:
        """Report a loss that is non-finite, and where the pass lost it, while the weights are those of it."""
        step = self._step
        if all(map(math.isfinite, step.losses)):
            return
        if self.recording is None or step.location is not None:
            return
        if not waits_for_others(self.model):
            step.location = first_non_finite(self.model, *step.inputs, blocks=self.recording.blocks)
            self.recording.report_lost_loss(step)

    def _before_update(
        self, optimizer: torch.optim.Optimizer, args: object, kwargs: object
    ) -> None:
        if torch.compiler.is_compiling():
            return
        with self._guard():
            if self.recording is None or not self._holds(optimizer):
                return
            self._step.passes_before_update = self._step.passes
            there = self._step.scalars_there()
            self._step.gradients, numbers = self.recording.gradient_norms(there)
            if numbers:
                self._step.take(numbers)
                self._look_for_lost_loss()
            rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
            self._step.rate = max(rates, default=math.nan)

    def _after_update(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if torch.compiler.is_compiling():
            self._was_traced = True
            return
        with self._guard():
            if self._calls is not None:
                self._calls.attach()  # again, where the model was compiled since
            if self.recording is not None and self._holds(optimizer):
                if not self.recording.counts_updates:
                    self.recording.count_updates(self._step)
                if self._step.passes > self._step.passes_before_update:
                    self._step.gradients = None  # the update ran the passes itself, by a closure
                self._close_step()
        self._hand_out()

    def _close_step(self) -> None:
        step = self._step
        self._abandon_step()
        is_plain = step.passes == len(step.losses) == step.starts == 1
        self._habit = self._habit + 1 if is_plain else 0
        if step.passes and self.recording is not None:
            self.recording.close(step)

    def _abandon_step(self) -> None:
        step, self._step = self._step, OpenStep()
        if step.blocks_observer is not None:
            step.blocks_observer.remove()

    def _holds(self, optimizer: torch.optim.Optimizer) -> bool:
        if is_measuring() or self.recording is None:
            return False
        ours = self.recording.groups.ids
        for group in optimizer.param_groups:
            for p in group["params"]:
                if id(p) in ours:
                    return True
        return False

    def _hand_out(self) -> None:
        """Give the events to the user's own hand, outside of what is guarded."""
        if self.recording is not None and self.recording.waiting:
            waiting, self.recording.waiting = self.recording.waiting, []
            if self._on_event is not None:
                for event in waiting:
                    self._on_event(event)

    def _let_go(self) -> None:
        self._is_active = False
        self._stop_listening()
        self._hooks.remove()
        self._abandon_step()
        if self._log is not None:
            self._log.close()
            self._log = None
            if self.recording is not None:
                self.recording.log = None

    def _guard(self) -> "_NeverRaises":
        """Whatever goes wrong inside, the user's training continues: warn once and stop."""
        return self._never_raises


class _NeverRaises:
    """Calls `let_go` and warns where an exception comes out of its block, which ends there.

    A generator would take five times as long, at some six places of every step.
    """

    __slots__ = ("_let_go",)

    def __init__(self, let_go: Callable[[], None]) -> None:
        self._let_go = let_go

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.stop(error)
        return True

    def stop(self, error: Exception) -> None:
        """Let go and warn."""
        self._let_go()
        warnings.warn(
            f"bathyscope.watch stopped: {in_a_line(error)}. The training continues.", stacklevel=4
        )


def watch(
    model: nn.Module,
    *,
    every: int = 50,
    log: str | Path | None = None,
    tracker: object | None = None,
    conditioning: bool = False,
    blocks: str | Iterable[str] | Blocks | None = None,
    on_event: OnEvent | None = None,
) -> Watch:
    """Watch the blocks of a model while a loop of one's own trains it, and notice what happens.

    It records from this call on, until `remove()`, the end of its `with` block, or the end of the
    program. At every step the loss, the learning rate, and the norms of gradients and
    weights of every block are looked at (of large tensors in turns, all where one stirs); at every k-th
    the moments of every block's output, its dead units, how much samples differ, and the gradient at its
    input and output are recorded too. What is out of the ordinary becomes an event: `seen.events`.

    Args:
        model: being trained; nothing about it is changed.
        every: how many steps lie between two full records; after an event they come more often.
        log: a folder for `watch.jsonl`, `steps.jsonl` and `events.jsonl`; kept in memory only by
            default. Of the steps after the first 10,000 ever fewer are written.
        tracker: a TensorBoard `SummaryWriter`, `mlflow`, a wandb run, or anything with
            `log_number(name, value, step)`; it also gets the findings when the watch ends.
        conditioning: record condition number and rank of every output too, which costs more.
        blocks: names or globs, or blocks found before; found on the first pass by default.
        on_event: called with every event when it is noticed: to stop, save, or lower the rate.

    Returns:
        The watch; `watch.events` and `watch.table` hold what was noticed and recorded.

    Raises:
        UsageError: an argument is of another kind, or the folder cannot be written.

    Examples:
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> with watch(net, every=2) as seen:
        ...     for _ in range(4):
        ...         net(torch.randn(8, 4)).sum().backward()
        >>> sorted(set(seen.table.step)), len(seen.table), seen.events
        ([0, 2], 4, ())

    Without a `with` block `remove()` ends it:

        >>> seen = watch(net)
        >>> net(torch.randn(8, 4)).sum().backward()
        >>> seen.remove()
        >>> seen.steps
        1
    """
    check_parameters(model, with_values=False)  # a lazy layer gets its values in the loop
    if blocks is not None and not isinstance(blocks, Blocks):
        blocks = check_names("blocks", blocks, minimum=1)
    if on_event is not None and not callable(on_event):
        raise UsageError(
            f"on_event is called with each event, but a {type(on_event).__name__} was given; "
            "give a function of one argument."
        )
    result = Watch(
        model,
        every=check_count("every", every, minimum=1),
        log=None if log is None else check_path("log", log),
        tracker=tracker,
        conditioning=check_flag("conditioning", conditioning),
        blocks=blocks,
        on_event=on_event,
    )
    result._start()
    return result


def _nothing() -> None:
    """Nothing to stop."""
