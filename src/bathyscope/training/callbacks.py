"""What a callback may see and do."""

from typing import Protocol, runtime_checkable

from torch import nn, optim

from bathyscope.core.json_values import JsonMapping
from bathyscope.training.config import TrainingConfig

Record = JsonMapping
"""One line of the metrics: `kind` is `step` or `epoch`, the rest are numbers by name."""


@runtime_checkable
class LoopView(Protocol):
    """The running loop, as a callback sees it."""

    model: nn.Module
    optimizer: optim.Optimizer
    config: TrainingConfig
    step: int
    epoch: int
    num_steps: int

    def stop(self, reason: str) -> None:
        """End the run after this step, as `finished` with this reason."""
        ...

    def log(self, record: Record) -> None:
        """Add a line of one's own to the metrics."""
        ...


class Callback:
    """Something done at fixed moments of a run. Override what you need; each method does nothing.

    A callback that carries numbers from step to step returns them from `state_dict`, so that a
    resumed run continues exactly; they must be tensors, numbers, strings, lists or dicts.

    Examples:
        >>> class StopEarly(Callback):
        ...     def on_step(self, loop: LoopView, record: Record) -> None:
        ...         if record["loss"] < 0.01:
        ...             loop.stop("the loss is small enough")
    """

    def on_start(self, loop: LoopView) -> None:
        """Called once, before the first step or after a checkpoint was restored."""

    def on_step(self, loop: LoopView, record: Record) -> None:
        """Called after every optimizer step, with loss, accuracy, gradient_norm and lr."""

    def on_epoch(self, loop: LoopView, record: Record) -> None:
        """Called after every epoch, with the averages over it and the evaluation where there was one."""

    def on_end(self, loop: LoopView, ending: str) -> None:
        """Called once, when the run has ended: finished, diverged or stopped."""

    def state_dict(self) -> dict[str, object]:
        """What a resumed run needs of this callback."""
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Take up the state that `state_dict` returned."""
