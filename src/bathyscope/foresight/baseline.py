"""The constant baseline's loss over several batches, for any loss of any output."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.nested import class_axis, map_tensors, tensors_in

_MOST_NUMBERS = 2_000_000
"""Of an output: above it a fit of hundreds of losses costs more than the look-ahead."""

_ITERATIONS = 20
_AT_REST = 1e-4
"""Of a gradient over its loss, which may have any scale: rounding leaves some 1e-6."""

_BOTTOMLESS = 1e3
"""A constant whose loss is below zero by this many times the first one's falls as far as it is let, as
that of a negated cross-entropy does."""


def constant_over_batches(
    answer: Tensor, batches: Sequence[Batch], *, loss: LossFn
) -> float | None:
    """Mean loss of one answer, which looks at no input, over the targets of some batches.

    Args:
        answer: of one sample, to be repeated for every sample.
        batches: their targets are asked; the first dimension of a target counts its samples.
        loss: a scalar from output and targets.
    """
    values = []
    for _, targets in batches:
        if not isinstance(targets, Tensor) or not targets.ndim:
            return None
        try:
            with torch.no_grad():
                output = answer.expand(len(targets), *answer.shape[1:]).contiguous()
                values.append(float(loss(output, targets)))
        except Exception:  # a loss may ask more of an output than its shape
            return None
    mean = sum(values) / len(values) if values else math.nan
    return mean if math.isfinite(mean) else None


def fitted_baseline(output: object, batches: Sequence[Batch], *, loss: LossFn) -> float | None:
    """The smallest mean loss of an output that is the same for every sample, fitted by L-BFGS.

    Every tensor of the output is such a constant, so that a variational autoencoder's code carries
    nothing and its images are the mean one. None where the output is the loss itself, is large, or
    the loss takes no such output, or falls without an end.

    Args:
        output: of the first batch, for its form.
        batches: their targets are asked; only those of the first one's size.
        loss: a scalar from output and targets.

    Examples:
        >>> import torch.nn.functional as F
        >>> labels = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
        >>> given = [(None, labels)]
        >>> bce = F.binary_cross_entropy_with_logits
        >>> round(fitted_baseline(torch.randn(4, 1), given, loss=bce), 3)  # entropy of 1/4 in nats
        0.562
    """
    tensors = [t for t in tensors_in(output) if t.is_floating_point()]
    size = sum(t.numel() for t in tensors)
    if not tensors or any(not t.ndim for t in tensors) or size > _MOST_NUMBERS:
        return None
    constants = {
        id(t): torch.zeros((1, *t.shape[1:]), dtype=t.dtype, device=t.device).requires_grad_()
        for t in tensors
    }
    some = _alike(batches, most=max(1, min(8, _MOST_NUMBERS // max(1, size))))
    fitter = torch.optim.LBFGS(
        list(constants.values()), max_iter=_ITERATIONS, line_search_fn="strong_wolfe"
    )
    seen: list[float] = []

    def mean_loss() -> Tensor:
        answer = map_tensors(
            output, lambda t: constants[id(t)].expand_as(t) if id(t) in constants else t
        )
        value = torch.stack([loss(answer, targets) for _, targets in some]).mean()
        # no backward(): the loss may hold parameters of its own, whose gradients are not ours
        pulls = torch.autograd.grad(value, list(constants.values()), allow_unused=True)
        for constant, pull in zip(constants.values(), pulls, strict=True):
            constant.grad = torch.zeros_like(constant) if pull is None else pull
        seen.append(float(value.detach()))
        return value

    try:
        with torch.enable_grad():
            fitter.step(mean_loss)
    except Exception:  # a user's own loss may raise anything
        if not seen:
            return None
    best = min((value for value in seen if math.isfinite(value)), default=None)
    if best is not None and best < -_BOTTOMLESS * max(1.0, abs(seen[0])):
        return None
    return best


def label_baseline(output: Tensor, targets: Tensor, *, loss: LossFn) -> float | None:
    """The smallest loss of an output that is the same for every sample, where targets are labels.

    With p_c the fraction of class c at a place, log p_c is what a cross-entropy asks for; whether the loss
    asks for it too is seen from its gradient, which is zero there. None where it is not.

    Args:
        output: of as many samples as there are targets, for its form.
        targets: one class a sample, a token or a pixel.
        loss: a scalar from output and targets.

    Examples:
        >>> import torch.nn.functional as F
        >>> labels = torch.tensor([[0, 1], [0, 1], [0, 0], [0, 2]])
        >>> value = label_baseline(torch.randn(4, 3, 2), labels, loss=F.cross_entropy)
        >>> round(value, 3)  # half the entropy of (1/4, 1/2, 1/4)
        0.52
        >>> label_baseline(torch.randn(4, 3, 2), labels, loss=F.nll_loss) is None
        True
    """
    if targets.is_floating_point() or output.ndim != targets.ndim + 1 or not targets.numel():
        return None
    axis = class_axis(output, targets) % output.ndim
    known = (targets >= 0) & (targets < output.shape[axis])
    hits = F.one_hot(targets.clamp(0, output.shape[axis] - 1).long(), output.shape[axis])
    counts = (hits * known.unsqueeze(-1)).sum(0, keepdim=True)
    fractions = counts / counts.sum(-1, keepdim=True).clamp_min(1)
    answer = fractions.clamp_min(1e-9).log().movedim(-1, axis).to(output.dtype).requires_grad_()
    try:
        with torch.enable_grad():
            value = loss(answer.expand(len(targets), *answer.shape[1:]), targets)
            [pull] = torch.autograd.grad(value, [answer])
    except Exception:  # a user's own loss may raise anything
        return None
    result = float(value.detach())
    return result if 0 < result < math.inf and float(pull.norm()) <= _AT_REST * result else None


def _alike(batches: Sequence[Batch], *, most: int) -> list[Batch]:
    """The first batches whose targets have the first one's shapes."""

    def shapes(batch: Batch) -> list[torch.Size]:
        return [t.shape for t in tensors_in(batch[1])]

    return [b for b in batches if shapes(b) == shapes(batches[0])][:most]
