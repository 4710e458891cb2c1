"""Entries of the parameters before and after one step: which moved, and by how much."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.loop_record import ParameterUse, StepRow
from bathyscope.recorder.sketch import Values, can_be_read, gather, local_part, root_mean_square


@dataclass(slots=True)
class Look:
    """What was read before a step."""

    tensors: list[Tensor]
    uses: list[ParameterUse]
    starts: list[int]
    weights: Values
    gradients: Values
    """Zero where a parameter has none."""
    has_gradient: list[bool]
    lr: Values
    """Of each entry."""
    second_moments: Tensor | None
    epsilon: float

    @property
    def along_weights(self) -> float | None:
        """Cosine between the gradient and the matrices themselves; None where there is no gradient."""
        counts = np.diff([*self.starts, len(self.weights)])
        is_matrix = np.repeat([t.ndim > 1 for t in self.tensors], counts)
        g, w = self.gradients[is_matrix], self.weights[is_matrix]
        size = float(np.linalg.norm(g) * np.linalg.norm(w))
        return float(g @ w) / size if size > 0 and math.isfinite(size) else None

    @property
    def gradient_rms(self) -> float:
        """Root mean square of the gradients that were read."""
        return root_mean_square(self.gradients)

    @property
    def are_zero(self) -> bool:
        """Whether all gradients are, also at entries that were not read: an embedding's are at most rows."""
        return not self.gradients.any() and not any(
            bool((g.coalesce().values() if g.is_sparse else g).any())
            for p in self.tensors
            if p.grad is not None and can_be_read(g := local_part(p.grad))
        )


def read_before(optimizer: torch.optim.Optimizer, uses: list[ParameterUse]) -> Look:
    """Read some entries of the parameters of an optimizer and of their gradients."""
    tensors, kept, lrs = [], [], []
    index = 0
    for group in optimizer.param_groups:
        lr = group.get("lr", math.nan)
        lr = float(lr) if not isinstance(lr, Tensor) or lr.device.type == "cpu" else math.nan
        for p in group["params"]:
            if can_be_read(p) and p.numel():
                tensors.append(p)
                kept.append(uses[index])
                lrs.append(lr)
            index += 1
    has_gradient = [p.grad is not None and can_be_read(p.grad) for p in tensors]
    present = [p.grad for p, has in zip(tensors, has_gradient, strict=True) if has]
    (weights, counts), (values, _) = gather(tensors, [g for g in present if g is not None])
    gradients = np.zeros_like(weights)
    mask = np.repeat(np.array(has_gradient, dtype=bool), counts)
    if int(mask.sum()) == len(values):  # a sparse gradient can have another number of entries
        gradients[mask] = values
    starts = [0, *np.cumsum(counts)[:-1].tolist()] if counts else []
    epsilon = optimizer.param_groups[0].get("eps", 0.0) if optimizer.param_groups else 0.0
    return Look(
        tensors=tensors,
        uses=kept,
        starts=starts,
        weights=weights,
        gradients=gradients,
        has_gradient=has_gradient,
        lr=np.repeat(np.array(lrs, dtype=np.float64), counts),
        second_moments=_second_moments(optimizer, tensors),
        epsilon=float(epsilon) if isinstance(epsilon, int | float) else 0.0,
    )


def _second_moments(optimizer: torch.optim.Optimizer, tensors: list[Tensor]) -> Tensor | None:
    """Those of the largest parameter."""
    if not tensors:
        return None
    largest = max(tensors, key=Tensor.numel)
    result = optimizer.state.get(largest, {}).get("exp_avg_sq")
    return result if isinstance(result, Tensor) else None


def take_in(look: Look, row: StepRow) -> None:
    """Compare with the same entries after the step."""
    if not look.starts:
        row.num_moved = 0
        return
    with_moments = [] if look.second_moments is None or look.epsilon <= 0 else [look.second_moments]
    (after, _), (moments, _) = gather(look.tensors, with_moments)
    changed = (after != look.weights) & ~(np.isnan(after) & np.isnan(look.weights))
    # what is NaN already does not move, and is not lost to rounding
    asked = (look.gradients != 0) & (look.lr > 0) & np.isfinite(look.weights)
    lost = asked & ~changed
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        plain = np.where(lost, look.lr * np.abs(look.gradients) / np.abs(look.weights), 0.0)
    plain = np.nan_to_num(plain, nan=0.0, posinf=1e9)
    starts = np.array(look.starts)
    moved = np.logical_or.reduceat(changed, starts)
    num_asked, num_lost = np.add.reduceat(asked, starts), np.add.reduceat(lost, starts)
    largest = np.maximum.reduceat(plain, starts)
    for i, use in enumerate(look.uses):
        use.looks += 1
        use.trainable = look.tensors[i].requires_grad
        use.with_gradient += look.has_gradient[i]
        use.moved += bool(moved[i])
        use.entries += int(num_asked[i])
        use.entries_unchanged += int(num_lost[i])
        use.relative_gradient = max(use.relative_gradient, float(largest[i]))
    row.num_moved = int(moved.sum())
    size = root_mean_square(look.weights)
    row.update_ratio = root_mean_square(after - look.weights) / size if size else None
    if len(moments):
        _take_in_epsilon(look, moments)


def _take_in_epsilon(look: Look, moments: Values) -> None:
    """Is √v below ε for most entries that have a gradient?"""
    index = max(range(len(look.tensors)), key=lambda i: look.tensors[i].numel())
    begin = look.starts[index]
    gradients = look.gradients[begin : begin + len(moments)]
    asked = gradients != 0
    if len(gradients) == len(moments) and asked.any():
        # |g| itself stands for √v̂, whose bias correction needs the optimizer's β₂
        small = np.abs(gradients[asked]) < 0.1 * look.epsilon
        small &= np.sqrt(moments[asked]) < 0.1 * look.epsilon
        look.uses[index].swallowed += bool(small.mean() > 0.5)
