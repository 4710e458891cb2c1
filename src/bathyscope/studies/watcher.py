"""What is measured while a run trains, and kept among its metrics."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn

from bathyscope.training import Callback, Examples, LoopView, Record

Watch = Callable[[nn.Module, Examples], Iterator[dict[str, object]]]
"""From a network and the samples to measure it on to rows of numbers."""


class Watcher(Callback):
    """Measures a run at its start, at its end, and at chosen steps between.

    The records are lines of the run's metrics; their `kind` is the name of what was watched.

    Args:
        watches: what to measure, by name.
        probe: the samples to measure on.
        every: steps between measurements; none for 0.
        at: further steps after which to measure.
        at_end_only: names of what is measured at the end alone.
    """

    def __init__(
        self,
        watches: Mapping[str, Watch],
        probe: Examples,
        *,
        every: int,
        at: frozenset[int],
        at_end_only: frozenset[str] = frozenset(),
    ) -> None:
        self.watches = watches
        self.at_end_only = at_end_only
        self.probe = probe
        self.every = every
        self.at = at
        self._last = -1

    def on_start(self, loop: LoopView) -> None:
        """Measure the network before its first step."""
        if loop.step == 0:
            self._measure(loop)

    def on_step(self, loop: LoopView, record: Record) -> None:
        """Measure at the chosen steps."""
        if loop.step in self.at or (self.every and loop.step % self.every == 0):
            self._measure(loop)

    def on_end(self, loop: LoopView, ending: str) -> None:
        """Measure the network as the run leaves it, unless it was stopped to continue later."""
        if not ending.startswith("stopped"):
            self._measure(loop, at_end=True)

    def state_dict(self) -> dict[str, object]:
        """The step of the last measurement."""
        return {"last": self._last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take it up."""
        self._last = state["last"]

    def _measure(self, loop: LoopView, *, at_end: bool = False) -> None:
        done = self._last == loop.step
        self._last = loop.step
        for name, watch in self.watches.items():
            if done if name not in self.at_end_only else not at_end:
                continue
            for row in watch(loop.model, self.probe):
                loop.log({"kind": name, "step": loop.step, "epoch": loop.epoch} | row)
