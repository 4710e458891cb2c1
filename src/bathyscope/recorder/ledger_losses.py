"""Backward passes, clipping and loss scaling: what happens to gradients between two steps."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.graph import Node

from bathyscope.core.fetch import fetch
from bathyscope.core.hooks import on_gradient
from bathyscope.core.loop_record import ClipUse, LoopRecord
from bathyscope.recorder.ledger_steps import StepLedger, probe_size
from bathyscope.recorder.sketch import can_be_read
from bathyscope.recorder.tracked_optimizer import Tracked

_MOST_FACTORS, _MOST_CLIPS, _MOST_NODES = 256, 32, 64
_MEAN = 1
"""What torch's losses keep for reduction="mean"."""
_HABIT = 48
"""Steps after which what every backward pass has done is looked at now and then only."""
# Nodes at which a loss takes the mean of many values; a scalar that enters one has lost its batch.
_MEANS = (
    "NllLoss", "CrossEntropy", "MseLoss", "MeanBackward", "BinaryCrossEntropy", "SmoothL1Loss",
    "HuberLoss", "L1Loss", "KlDiv", "SoftMarginLoss", "CtcLoss",
)  # fmt: skip


class BackwardLedger:
    """Keeps the records of what happens between two steps."""

    def __init__(self, record: LoopRecord, steps: StepLedger) -> None:
        self.record = record
        self.steps = steps
        self._marks: dict[int, list[tuple[int, int]]] = {}
        self._tracked: list[Tracked] = []
        self._weights: list[float] = []
        self._counts: list[float] = []
        self._line: str | None = None
        self._is_scaled = False
        self.is_usual = False
        """Whether the backward pass under way is taken for one as all before it."""
        self._clips: dict[tuple[str, str | None], ClipUse] = {}

    def before(self, root: object, line: str | None) -> None:
        """A backward pass begins: are there gradients of the last step still?"""
        self.record.backward_passes += 1
        self._tracked = self.steps.tracked()
        self.is_usual = self._is_as_before(root)
        if self.is_usual:
            (tracked,) = self._tracked
            if not tracked.is_cleared and _is_empty(tracked):
                tracked.is_cleared = True
            self._take_loss(root)  # type: ignore[arg-type]
            tracked.num_backward += 1
            tracked.was_cleared_after_backward = False
            tracked.backward_lines[line] += 1
            return
        self._line = line
        self._marks = {}
        self._weights, self._counts = [], []
        for tracked in self._tracked:
            if not tracked.is_cleared and _is_empty(tracked):
                tracked.is_cleared = True
            self._marks[id(tracked)] = tracked.marks()
        roots = [root] if isinstance(root, Tensor) else list(_tensors(root))
        if len(roots) != 1 or roots[0].numel() != 1:
            return
        totals: list[Tensor] = []
        if roots[0].grad_fn is None:
            for tracked in self._tracked:
                tracked.use.leaf_losses += 1
        elif self.steps.is_looked_at:
            for node in _mean_nodes(roots[0].grad_fn):
                on_gradient(node, self._take_weight)
                if getattr(node, "_saved_reduction", 0) == _MEAN and "NllLoss" in node.name():
                    totals.append(node._saved_total_weight)  # type: ignore[attr-defined]
        self._counts = self._take_loss(roots[0], *totals)

    def _is_as_before(self, root: object) -> bool:
        """Whether one optimizer was reached by all backward passes so far, so that this one is taken to."""
        return (
            not self.steps.is_looked_at
            and self.record.steps >= _HABIT
            and len(self._tracked) == 1
            and self._tracked[0].is_reached
            and isinstance(root, Tensor)
            and root.grad_fn is not None
            and root.numel() == 1
        )

    def _take_loss(self, root: Tensor, *others: Tensor) -> list[float]:
        """Note the loss; other scalars, which come with it in one transfer, are given back."""
        if not (root.is_cpu or self.steps.is_looked_at):
            self.steps.last_loss = None
            return []
        loss, *rest = [n for (n,) in fetch([root, *others])] if others else [root.item()]
        scale = self.steps.loss_scale if self._is_scaled else None
        self.steps.last_loss = loss / scale if scale else loss
        return rest

    def _take_weight(self, at_inputs: object, at_outputs: tuple[Tensor | None, ...]) -> None:
        weight = at_outputs[0] if at_outputs else None
        if weight is not None and weight.numel() == 1:
            scale = self.steps.loss_scale if self._is_scaled and self.steps.loss_scale else 1.0
            self._weights.append(abs(float(weight.detach())) / scale)

    def after(self, root: object) -> None:
        """A backward pass has ended: which optimizers' gradients did it reach?"""
        is_looked_at = self.steps.is_looked_at
        for tracked in self._tracked:
            marks = self._marks.get(id(tracked))
            if marks is not None and tracked.marks() == marks:
                tracked.is_reached = False
                continue
            tracked.num_backward += 1
            tracked.was_cleared_after_backward = False
            tracked.backward_lines[self._line] += 1
            if self._weights:
                tracked.mean_weight += max(self._weights)
            if len(self._counts) == 1 and self._weights:
                tracked.counts.append(self._counts[0] / max(self._weights))
            if is_looked_at and tracked.num_backward > 1:
                tracked.after_backward = probe_size(tracked)

    def clipped(
        self, parameters: list[Tensor], limit: float, norm: object, line: str | None
    ) -> None:
        """Gradients are to be clipped."""
        use = self._clip_use("value" if norm is None else "norm", line)
        if use is None:
            return
        use.calls += 1
        use.limit = limit
        present = [p for p in parameters if p.grad is not None]
        held = {id(p) for p in parameters}
        hit = [t for t in self.steps.tracked() if any(id(p) in held for p in t.probe_tensors())]
        if not present:
            use.without_gradient += 1
        if hit and not any(t.num_backward for t in hit):
            use.before_backward += 1
        if self._is_scaled and hit and not any(t.is_unscaled for t in hit):
            scale = self.steps.loss_scale
            use.scaled += scale is None or scale != 1.0
        value = _norm(norm) if present else None
        if value is None:
            return
        use.without_gradient += value == 0
        use.largest_norm = max(use.largest_norm, value)
        factor = min(1.0, limit / (value + 1e-6)) if math.isfinite(value) else math.nan
        use.active += factor < 1
        if len(use.factors) < _MOST_FACTORS:
            use.factors.append(factor)
        for tracked in hit:
            tracked.clip_factor = factor

    def _clip_use(self, kind: str, line: str | None) -> ClipUse | None:
        result = self._clips.get((kind, line))
        if result is None and len(self._clips) < _MOST_CLIPS:
            result = self._clips[kind, line] = ClipUse(kind, line)
            self.record.clips.append(result)
        return result

    def scaled(self, scaler: torch.amp.GradScaler) -> None:
        """A loss was multiplied by the scale."""
        self.record.scaler_calls += 1
        self._is_scaled = True
        scale = scaler._scale
        if scale is not None and (scale.device.type == "cpu" or self.steps.is_looked_at):
            self.steps.loss_scale = float(scale)

    def unscaled(self, optimizer: torch.optim.Optimizer) -> None:
        """Gradients were divided by the scale."""
        self.steps.track(optimizer).is_unscaled = True


def _norm(norm: object) -> float | None:
    if isinstance(norm, Tensor) and norm.device.type == "cpu":
        return float(norm)
    return float(norm) if isinstance(norm, float) else None


def _is_empty(tracked: Tracked) -> bool:
    """Whether the gradients that an optimizer used at its last step are gone."""
    gradients = [p.grad for p in tracked.probe_tensors() if p.grad is not None]
    if not gradients:
        return True
    if any(g.device.type != "cpu" or not can_be_read(g) or g.is_sparse for g in gradients):
        return False
    smallest = min(gradients, key=Tensor.numel)
    return not smallest.any() and not any(bool(g.any()) for g in gradients)


def _tensors(roots: object) -> Iterator[Tensor]:
    if isinstance(roots, list | tuple):
        yield from (t for t in roots if isinstance(t, Tensor))


def _mean_nodes(root: Node) -> Iterator[Node]:
    """The nodes nearest to the root of a graph at which means over many values are taken."""
    waiting: list[Node] = [root]
    seen: set[Node] = set()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if any(name in node.name() for name in _MEANS):
            yield node
            continue
        waiting += [n for n, _ in node.next_functions if n is not None]
