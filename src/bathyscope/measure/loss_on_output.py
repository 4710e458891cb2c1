"""A loss as a function of one tensor of the output: its weights of classes, and the floor it cannot pass."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Literal

import torch
from torch import Tensor

from bathyscope.core.batch import LossFn
from bathyscope.core.nested import map_tensors


@dataclass(frozen=True, slots=True, eq=False)
class LossOnOutput:
    """A loss with its targets, and the output around the tensor that is replaced."""

    loss: LossFn
    output: object
    tensor: Tensor
    targets: object

    def value(self, y: Tensor) -> Tensor | None:
        """The loss with that tensor replaced; None where it raises or is not a single number."""
        replaced = map_tensors(self.output, lambda t: y if t is self.tensor else t.detach())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the user has seen them in the pass before
                result = self.loss(replaced, self.targets)
        except Exception:  # a user's own loss may raise anything on an output it did not expect
            return None
        if not isinstance(result, Tensor) or result.numel() != 1:
            return None
        return result.reshape(())

    def number(self, y: Tensor) -> float | None:
        """As `value`, without a graph."""
        with torch.no_grad():
            result = self.value(y)
        return None if result is None else float(result)

    def gradient(self, y: Tensor) -> Tensor | None:
        """∂E/∂y there; None where it cannot be had."""
        with torch.enable_grad():
            leaf = y.detach().clone().requires_grad_()
            result = self.value(leaf)
            if result is None or not result.requires_grad:
                return None
            try:
                (gradient,) = torch.autograd.grad(result, [leaf], allow_unused=True)
            except RuntimeError:
                return None
        return None if gradient is None else gradient.detach()


def loss_on_output(
    loss: LossFn, output: object, tensor: Tensor, targets: object
) -> LossOnOutput | None:
    """The loss as a function of one tensor of the output; None where the model computes its own.

    Examples:
        >>> y = torch.zeros(2, 3, requires_grad=True) * 1
        >>> on_output = loss_on_output(torch.nn.functional.cross_entropy, y, y, torch.tensor([0, 1]))
        >>> round(on_output.number(torch.zeros(2, 3)), 4)
        1.0986
    """
    known = isinstance(output, (Tensor, tuple, list)) or type(output) is dict
    if not known or (isinstance(output, Mapping) and "loss" in output) or is_dataclass(output):
        return None
    if targets is None and not isinstance(output, (Tensor, tuple, list)):
        return None
    return LossOnOutput(loss, output, tensor, targets)


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
        None where targets are not classes, or the loss has no gradient at equal outputs.

    Examples:
        >>> from functools import partial
        >>> from bathyscope.measure.loss_on_output import loss_on_output
        >>> import torch.nn.functional as F
        >>> y, labels = torch.zeros(4, 2, requires_grad=True) * 1, torch.tensor([0, 0, 0, 1])
        >>> loss = partial(F.cross_entropy, weight=torch.tensor([0.75, 0.25]))
        >>> round(class_weights(loss_on_output(loss, y, y, labels), y, labels, 1).slope, 3)
        1.0
    """
    is_column = y.ndim == 2 and y.shape[1] == 1
    if targets is not None and is_column and targets.shape == y.shape[:1]:
        targets = targets.unsqueeze(1)
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
        return targets.long() if fits else None
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


_UNIT = 1e-3
_STEPS = 60
_MOST_ENTRIES = 1 << 18

Given = Literal["log-probabilities", "probabilities", "logits"]


@dataclass(frozen=True, slots=True)
class LossFloor:
    """What bounds the loss from below, or lets it fall without bound.

    Attributes:
        value: the loss.
        is_linear: whether the loss is linear in the output, with a slope that is the targets: it then takes
            log-probabilities, as `nll_loss` and `kl_div` do.
        given: what the output is in truth, where it is linear.
        unit_rows: whether every row of the output has length 1, or the loss does not see the length.
        collapsed: the loss where all rows are one; None where it was not tried.
        reachable: the smallest loss that free rows of length 1 reach in 60 steps.
    """

    value: float
    is_linear: bool = False
    given: Given | None = None
    unit_rows: bool = False
    collapsed: float | None = None
    reachable: float | None = None

    @property
    def temperature(self) -> float | None:
        """1/(collapsed − reachable): with unit vectors and many negatives, that of the softmax.

        Aligned pairs have similarity 1 and the others about 0, so that a softmax with temperature τ over n
        similarities falls from ln n to ln n − 1/τ at best.
        """
        if self.collapsed is None or self.reachable is None or self.reachable <= 0:
            return None
        gap = self.collapsed - self.reachable
        return 1 / gap if gap > 0 else None


def loss_floor(
    on_output: LossOnOutput, y: Tensor, gradient: Tensor, targets: Tensor | None
) -> LossFloor | None:
    """Whether the loss is linear in the output, and how far it can fall where rows have length 1.

    Args:
        on_output: the loss as a function of the output.
        y: the output.
        gradient: of the loss there.
        targets: of the batch, where they are a tensor.

    Examples:
        >>> from bathyscope.measure.loss_on_output import loss_on_output
        >>> import torch.nn.functional as F
        >>> y = torch.randn(4, 3, requires_grad=True).softmax(1)
        >>> on_output = loss_on_output(F.nll_loss, y, y, torch.tensor([0, 1, 2, 0]))
        >>> loss_floor(on_output, y.detach(), on_output.gradient(y), torch.tensor([0, 1, 2, 0])).given
        'probabilities'
    """
    value = on_output.number(y)
    if value is None or not math.isfinite(value) or y.ndim < 2 or y.numel() > _MOST_ENTRIES:
        return None
    if _is_linear(on_output, y, gradient) and _asks_for(gradient, y, targets):
        return LossFloor(value, is_linear=True, given=_given(y, targets))
    if y.ndim != 2 or min(y.shape) < 2 or not _has_unit_rows(on_output, y, value):
        return LossFloor(value)
    collapsed = on_output.number(y[:1].expand_as(y).contiguous())
    turned = on_output.number(-y[:1].expand_as(y).contiguous())
    if collapsed is None or turned is None or not math.isclose(collapsed, turned, rel_tol=1e-3):
        # rows are compared with others than themselves, such as a queue of earlier ones
        return LossFloor(value, unit_rows=True)
    return LossFloor(
        value, unit_rows=True, collapsed=collapsed, reachable=_descend(on_output, y, value)
    )


def _is_linear(on_output: LossOnOutput, y: Tensor, gradient: Tensor) -> bool:
    """Whether the gradient is the same at another output."""
    waves = torch.arange(y.numel(), device=y.device).to(y.dtype).sin().reshape(y.shape)
    there = on_output.gradient(y + 0.1 * waves)
    if there is None or not torch.allclose(there[:1], gradient[:1]):
        return False
    return bool(gradient.any()) and torch.allclose(there, gradient)


def _asks_for(gradient: Tensor, y: Tensor, targets: Tensor | None) -> bool:
    """Whether minus the gradient is, row by row, in proportion to the targets."""
    if targets is None:
        return False
    if targets.is_floating_point():
        if targets.shape != y.shape:
            return False
        wanted = targets.double()
    else:
        axis = _class_axis(y, targets)
        if axis is None:
            return False
        known = targets.clamp(0, y.shape[axis] - 1).long()
        wanted = torch.nn.functional.one_hot(known, y.shape[axis]).double().movedim(-1, axis)
    rows = -gradient.double()
    cosine = (rows * wanted).sum() / (rows.norm() * wanted.norm()).clamp_min(1e-300)
    return bool((rows >= 0).all()) and float(cosine) > 0.5


def _class_axis(y: Tensor, targets: Tensor) -> int | None:
    """The axis of the output that class indices lack, the second where several would do; None without one."""
    fits = (a for a in range(1, y.ndim) if targets.shape == (*y.shape[:a], *y.shape[a + 1 :]))
    return next(fits, None)


def _given(y: Tensor, targets: Tensor | None) -> Given:
    axis = -1
    if targets is not None and not targets.is_floating_point():
        axis = _class_axis(y, targets) or 1
    if bool((torch.logsumexp(y.double(), axis).abs() < 1e-3).all()):
        return "log-probabilities"
    sums = y.double().sum(axis)
    return "probabilities" if bool((y >= 0).all() and ((sums - 1).abs() < 1e-3).all()) else "logits"


def _has_unit_rows(on_output: LossOnOutput, y: Tensor, value: float) -> bool:
    norms = torch.linalg.vector_norm(y.double(), dim=1)
    if bool(((norms - 1).abs() < _UNIT).all()):
        return True
    longer = on_output.number(2 * y)
    waves = torch.arange(y.numel(), device=y.device).to(y.dtype).sin().reshape(y.shape)
    turned = on_output.number(waves)
    twice = on_output.number(2 * waves)
    if longer is None or turned is None or twice is None:
        return False
    same = math.isclose(longer, value, rel_tol=1e-4) and math.isclose(twice, turned, rel_tol=1e-4)
    return same and not math.isclose(turned, value, rel_tol=1e-3)


def _descend(on_output: LossOnOutput, y: Tensor, value: float) -> float:
    """The smallest loss on the way of 60 steps of Adam over free rows of length 1."""
    rows = y.detach().float().clone()
    mean, square, best = torch.zeros_like(rows), torch.zeros_like(rows), value
    for step in range(1, _STEPS + 1):
        rows = torch.nn.functional.normalize(rows, dim=1)
        gradient = on_output.gradient(rows.to(y.dtype))
        if gradient is None or not bool(torch.isfinite(gradient).all()):
            break
        here = on_output.number(rows.to(y.dtype))
        best = min(best, here) if here is not None and math.isfinite(here) else best
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient.square()
        scaled = (mean / (1 - 0.9**step)) / ((square / (1 - 0.99**step)).sqrt() + 1e-9)
        rows = rows - 0.1 * scaled
    return best
