"""An optimizer between two of its steps: what happened to its gradients since the last one."""

import weakref
from collections import Counter
from typing import Any

import torch
from torch import Tensor

from bathyscope.core.loop_record import OptimizerUse, StepRow
from bathyscope.recorder.moves import Look
from bathyscope.recorder.sketch import can_be_read, entries, local_part

_OF_NUMPY = (torch.float32, torch.float64)
"""Read through numpy, which is quicker for a few entries."""


class Tracked:
    """An optimizer between two of its steps."""

    def __init__(self, optimizer: torch.optim.Optimizer, use: OptimizerUse) -> None:
        self.ref = weakref.ref(optimizer)
        self.use = use
        self.is_cleared = True
        self.was_cleared_after_backward = False
        self.num_backward = (
            0  # backward passes since the last step that have reached its parameters
        )
        self.backward_lines: Counter[str | None] = Counter()
        self.cleared_lines: Counter[str | None] = Counter()
        """Lines of backward passes since the last step whose gradients were cleared again."""
        self.counts: list[float] = []  # targets of each micro-batch since the last step
        self.mean_weight = 0.0
        self.after_backward: float | None = None
        self.is_unscaled = False
        self.clip_factor: float | None = None
        self.passes = (0, 0)
        self.probes: list[weakref.ref[Tensor]] = []
        self.probe_values: list[list[float]] | None = None
        self.at_step: list[list[float]] | None = None  # as they were before the step under way
        self._views: dict[int, tuple[int, Any]] = {}
        self.versions: list[int] | None = None
        self.look: Look | None = None
        self.row: StepRow | None = None
        self.own_count: float | None = None
        self.was_stepped = False
        self.is_passed_over = False  # the step under way: it is counted, and that is all
        self.usual = (0, 0, 0)  # passes in train and eval mode, and backward passes of one step
        self.is_reached = True  # by every backward pass so far

    def probe_tensors(self) -> list[Tensor]:
        """A few of its parameters that get gradients."""
        return [p for ref in self.probes if (p := ref()) is not None]

    def read_probes(self) -> list[list[float]] | None:
        """A few entries of the probes; None on an accelerator, where reading would wait for it."""
        values = []
        for p in self.probe_tensors():
            pointer, view = self._views.get(id(p), (0, None))
            if view is None or pointer != p.data_ptr():  # `p.data` was replaced
                part = local_part(p) if hasattr(p, "to_local") else p
                if p.device.type != "cpu" or not can_be_read(p):
                    return None
                # not a view where the layout allows none: then it is made again each time
                some = entries(part)[:8]
                view = some.numpy() if some.dtype in _OF_NUMPY else some
                is_view = some.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()
                if part is p and is_view:
                    self._views[id(p)] = (p.data_ptr(), view)
            values.append(view.tolist())
        return values

    def marks(self) -> list[tuple[int, int]]:
        """What changes when a backward pass adds to the gradients of the probes."""
        return [
            (0, 0) if p.grad is None else (id(p.grad), p.grad._version)
            for p in self.probe_tensors()
        ]
