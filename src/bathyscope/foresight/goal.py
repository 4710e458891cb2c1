"""What a training is after: how good the constant baseline is, and how far from it the network got."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.fetch import fetch
from bathyscope.core.losses import IGNORED, token_cross_entropy
from bathyscope.core.nested import predictions
from bathyscope.foresight.baseline import constant_over_batches, fitted_baseline

Kind = Literal["labels", "numbers", "other"]

_SOME, _MANY = 8, 32
"""Batches of which the targets are pooled for the score, and for the constant baseline."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What the targets ask for.

    Attributes:
        kind: `labels` (one class a sample, a token or a pixel), `numbers` (as many as the output
            has), or `other`, where only the loss itself can be followed.
        constant_loss: the loss of the best answer that does not look at the input; the first loss
            of the network where that is not known.
        chance: fraction of the labels that the most frequent one has; 0 for numbers.
        axis: of the output, along which the classes lie: torch's 1, or the last where a loss
            flattens the outputs of language models.
        is_shifted: whether each place is asked for the target of the next, as language models that
            compute their own loss do.
        baseline: the constant baseline's loss, of either sign, over several batches; None where it is
            not known.
    """

    kind: Kind
    constant_loss: float
    chance: float
    axis: int = 1
    is_shifted: bool = False
    baseline: float | None = None

    def score(self, output: object, targets: Any) -> float | None:
        """How far from the best constant (0) to the perfect answer (1); None where it is not known."""
        parts = self.score_parts(output, targets)
        return None if parts is None else self.score_of([v for (v,) in fetch(parts)])

    def score_parts(self, output: object, targets: Any) -> list[Tensor] | None:
        """The numbers that `score_of` makes the score from, on the device that they are on."""
        result = predictions(output)
        if result is None or self.kind == "other":
            return None
        targets = _next_ones(targets) if self.is_shifted else targets
        with torch.no_grad():
            if self.kind == "labels":
                asked = targets != IGNORED
                hits = (result.argmax(self.axis) == targets) & asked
                return [hits.sum(), asked.sum()]
            spread = (targets - targets.mean(0)).square().mean()
            return [1 - F.mse_loss(result, targets) / spread.clamp_min(1e-12)]

    def score_of(self, parts: Sequence[float]) -> float:
        """The score."""
        if self.kind != "labels":
            return parts[0]
        right = parts[0] / parts[1] if parts[1] else math.nan
        return (right - self.chance) / max(1 - self.chance, 1e-3)

    def direction(self, output: Tensor, targets: Any) -> Tensor | None:
        """Where the outputs of a batch should move, each sample against the mean; None if not known."""
        if self.kind == "other":
            return None
        targets = _next_ones(targets) if self.is_shifted else targets
        if self.kind == "labels":
            known = targets.clamp_min(0)
            wanted = F.one_hot(known, output.shape[self.axis]).movedim(-1, self.axis)
            wanted = wanted.to(output.dtype) * (targets != IGNORED).unsqueeze(self.axis)
        else:
            wanted = targets
        result: Tensor | None = wanted - wanted.mean(0)
        return result


def targets_of(batch: Batch) -> Any:
    """What a batch asks for; models that compute their own loss have it among their inputs, as `labels`."""
    inputs, targets = batch
    return inputs.get("labels") if targets is None and isinstance(inputs, Mapping) else targets


def goal_of(output: object, batches: Sequence[Batch], *, loss: LossFn, first_loss: float) -> Goal:
    """The goal of a training, read from an output and the targets of some batches.

    Args:
        output: of the first batch.
        batches: whose targets are pooled.
        loss: a scalar from output and targets.
        first_loss: of the first batch.
    """
    many, batches = batches[:_MANY], batches[:_SOME]
    result, targets = predictions(output), targets_of(batches[0])

    def unknown() -> Goal:
        return _of_loss_alone(output, many, loss=loss, first_loss=first_loss)

    kind, axis, is_shifted = _kind(result, targets, first_loss)
    pooled = _pooled([targets_of(batch) for batch in batches])
    if result is None or pooled is None or kind == "other":
        return unknown()
    asked = _next_ones(targets) if is_shifted else targets
    pooled = _next_ones(pooled) if is_shifted else pooled
    if kind == "labels" and not _are_classes(pooled, result.shape[axis]):
        return unknown()  # one output for two classes, or a label of its own for what is not known
    answer, chance = _constant_answer(kind, pooled, result, axis)
    comes_with_output = batches[0][1] is None
    try:
        with torch.no_grad():
            constant = math.nan if comes_with_output else float(loss(answer.contiguous(), targets))
    except Exception:  # a loss may ask more of an output than its shape, as one that comes with it
        constant = math.nan
        comes_with_output = True
    if (
        comes_with_output
        and axis == result.ndim - 1
        and _is_flat_entropy(result, asked, first_loss)
    ):
        constant = float(token_cross_entropy(answer, asked))
    if not math.isfinite(constant) or constant <= 0:
        return unknown()
    if kind == "numbers" and not _is_reached(loss, targets, constant):
        return unknown()  # as the logits of a binary cross-entropy, which never equal their targets
    baseline = None
    if not comes_with_output and (whole := _pooled([t for _, t in many])) is not None:
        steady, _ = _constant_answer(kind, whole, result, axis)
        baseline = constant_over_batches(steady[:1], many, loss=loss)
    return Goal(
        kind, constant, chance, axis, is_shifted, constant if baseline is None else baseline
    )


def _constant_answer(kind: Kind, pooled: Tensor, like: Tensor, axis: int) -> tuple[Tensor, float]:
    """The best output that does not look at the input, in an output's shape, and the largest class."""
    if kind == "numbers":
        return pooled.mean(0).expand(like.shape), 0.0
    counts = torch.bincount(pooled[pooled != IGNORED].flatten(), minlength=like.shape[axis])
    fractions = counts / counts.sum()
    answer = (fractions + 1e-6).log().to(like.dtype)
    answer = answer.reshape(-1, *[1] * (like.ndim - 1 - axis)).expand(like.shape)
    return answer, float(fractions.max())


def _of_loss_alone(
    output: object, batches: Sequence[Batch], *, loss: LossFn, first_loss: float
) -> Goal:
    """The goal where only the loss can be followed: its baseline is fitted, if that can be."""
    baseline = None
    if batches[0][1] is not None or isinstance(output, (Tensor, tuple, list)):
        baseline = fitted_baseline(output, batches, loss=loss)
    if baseline is not None and not math.isfinite(baseline):
        baseline = None
    constant = baseline if baseline is not None and baseline > 0 else abs(first_loss) or 1.0
    return Goal("other", constant, 0.0, baseline=baseline)


def _is_reached(loss: LossFn, targets: Tensor, constant: float) -> bool:
    """Whether the targets themselves are the outputs that the loss asks for."""
    try:
        with torch.no_grad():
            perfect = float(loss(targets.clone(), targets))
    except Exception:  # a loss may ask more of an output than its shape
        return False
    return math.isfinite(perfect) and perfect <= 0.05 * constant


def _pooled(targets: list[object]) -> Tensor | None:
    """The targets of several batches below one another; None where they are not such tensors."""
    tensors = [t for t in targets if isinstance(t, Tensor) and t.ndim]
    if len(tensors) < len(targets) or len({(t.shape[1:], t.dtype) for t in tensors}) != 1:
        return None
    return torch.cat(tensors)


def _are_classes(labels: Tensor, num_classes: int) -> bool:
    known = labels[labels != IGNORED]
    if labels.dtype == torch.bool or not known.numel():
        return False
    return int(known.min()) >= 0 and int(known.max()) < num_classes


def _kind(output: Tensor | None, targets: object, first_loss: float) -> tuple[Kind, int, bool]:
    """What the targets are, along which axis of the output the classes lie, and whether they are shifted."""
    if output is None or not isinstance(targets, Tensor):
        return "other", 1, False
    if targets.is_floating_point():
        return ("numbers" if targets.shape == output.shape else "other"), 1, False
    if output.ndim != targets.ndim + 1 or output.ndim < 2:
        return "other", 1, False
    last = output.ndim - 1
    if output.shape[:-1] == targets.shape:
        for is_shifted in (False, True)[: targets.ndim]:
            asked = _next_ones(targets) if is_shifted else targets
            if _is_flat_entropy(output, asked, first_loss):
                return "labels", last, is_shifted
    fits = output.shape[0] == targets.shape[0] and output.shape[2:] == targets.shape[1:]
    return ("labels" if fits else "other"), 1, False


def _next_ones(targets: Tensor) -> Tensor:
    """For each place the target of the next; the last has none."""
    return F.pad(targets[..., 1:], (0, 1), value=IGNORED)


def _is_flat_entropy(output: Tensor, targets: Tensor, first_loss: float) -> bool:
    """Whether the loss is the cross-entropy over all places; a model may shift its targets inside."""
    if targets.is_floating_point() or not _are_classes(targets, output.shape[-1]):
        return False
    with torch.no_grad():
        flat = token_cross_entropy(output.double(), targets.long())
    return math.isclose(float(flat), first_loss, rel_tol=1e-3, abs_tol=1e-6)
