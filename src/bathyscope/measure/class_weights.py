"""How much a sample of each class weighs in the loss, against how often the class occurs."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bathyscope.measure.loss_on_output import LossOnOutput

_MOST_CLASSES = 1000


@dataclass(frozen=True, slots=True)
class ClassWeights:
    """Weights of classes in the loss.

    Attributes:
        classes: those that occur among the targets.
        counts: how often.
        weights: of one sample of each, over their mean: the norm of the gradient at equal outputs.
        slope: of log weight over log count: −1 where rare classes are made up for, 1 where weights are the
            frequencies themselves; None where neither differs.
        correlation: of the two.
    """

    classes: tuple[int, ...]
    counts: tuple[int, ...]
    weights: tuple[float, ...]
    slope: float | None
    correlation: float | None

    @property
    def weight_range(self) -> float:
        """Largest over smallest weight."""
        positive = [w for w in self.weights if w > 0]
        return max(positive) / min(positive) if positive else 1.0


def class_weights(
    on_output: LossOnOutput, y: Tensor, targets: Tensor | None, axis: int | None
) -> ClassWeights | None:
    """The weight of every class, from the gradient at an output of zeros, where only weights differ.

    Args:
        on_output: the loss.
        y: the output.
        targets: class indices; or 0 and 1 for every output, as of several labels.
        axis: the output's axis of classes; None for a single output.

    Returns:
        None where targets are no classes, or the loss has no gradient at equal outputs.

    Examples:
        >>> from functools import partial
        >>> from bathyscope.measure.loss_on_output import loss_on_output
        >>> import torch.nn.functional as F
        >>> y, labels = torch.zeros(4, 2, requires_grad=True) * 1, torch.tensor([0, 0, 0, 1])
        >>> loss = partial(F.cross_entropy, weight=torch.tensor([0.75, 0.25]))
        >>> round(class_weights(loss_on_output(loss, y, y, labels), y, labels, 1).slope, 3)
        1.0
    """
    if targets is not None and targets.shape == y.shape:
        axis = None
    labels = _labels(y, targets, axis)
    if labels is None:
        return None
    known = labels[labels >= 0].unique()
    classes: list[int] = known.tolist()
    if not 2 <= len(classes) <= _MOST_CLASSES:
        return None
    gradient = on_output.gradient(torch.zeros_like(y))
    if gradient is None or not bool(torch.isfinite(gradient).all()):
        return None
    rows = gradient.movedim(axis, -1) if axis is not None else gradient.reshape(*labels.shape, 1)
    size = torch.linalg.vector_norm(rows.double(), dim=-1)
    if size.shape != labels.shape:
        return None
    counted = labels >= 0
    index = torch.searchsorted(known, labels[counted])
    number = torch.bincount(index, minlength=len(classes))
    total = torch.bincount(index, weights=size[counted], minlength=len(classes))
    counts: list[int] = number.tolist()
    weights: list[float] = (total / number).tolist()
    mean = sum(weights) / len(weights)
    if mean <= 0:
        return None
    slope, correlation = _log_fit(counts, weights)
    return ClassWeights(
        tuple(classes), tuple(counts), tuple(w / mean for w in weights), slope, correlation
    )


def _labels(y: Tensor, targets: Tensor | None, axis: int | None) -> Tensor | None:
    if targets is None:
        return None
    if axis is not None:
        fits = not targets.is_floating_point() and targets.ndim == y.ndim - 1
        return targets if fits else None
    binary = bool(((targets == 0) | (targets == 1)).all())
    return targets.long() if binary and targets.shape == y.shape else None


def _log_fit(counts: list[int], weights: list[float]) -> tuple[float | None, float | None]:
    """Slope and correlation of log weight over log count, over classes with a weight."""
    pairs = [
        (math.log(c), math.log(w)) for c, w in zip(counts, weights, strict=True) if c > 0 and w > 0
    ]
    if len(pairs) < 2:
        return None, None
    x, z = torch.tensor(pairs, dtype=torch.float64, device="cpu").T
    x, z = x - x.mean(), z - z.mean()
    spread = float(x.square().sum()), float(z.square().sum())
    if min(spread) < 1e-9:
        return None, None
    together = float((x * z).sum())
    return together / spread[0], together / math.sqrt(spread[0] * spread[1])
