"""Batch norms whose running statistics cannot follow, or whose statistics run over the wrong axis."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.core.calls import unwrap

_BATCH_NORM = nn.modules.batchnorm._BatchNorm


@dataclass(frozen=True, slots=True)
class NormStatistics:
    """What a model's batch norms make of their statistics.

    Attributes:
        still: norms in train mode with momentum 0: their running statistics never move.
        still_at_start: of these, those whose statistics are still (0, 1).
        last_batch: norms with momentum of 0.9 or more: they hold little but the last batch.
        channel_range: largest over smallest root mean square along the axis that a norm takes for channels.
        other_range: the same along the axis that it averages over; for the input (samples, channels, length)
            of a norm where this is largest beside the first. None where no norm has three axes.
    """

    still: tuple[str, ...]
    still_at_start: tuple[str, ...]
    last_batch: tuple[str, ...]
    channel_range: float | None = None
    other_range: float | None = None


LARGEST_MOMENTUM = 0.9
"""In torch momentum is the weight of the new batch, 0.1 by default; in TensorFlow it is that of the past."""


def norm_statistics(model: nn.Module, *, inputs: Iterable[Tensor] = ()) -> NormStatistics:
    """The momenta of a model's batch norms, and the scales along the axes of inputs that they were given.

    Args:
        model: any module.
        inputs: of batch norms with three axes (samples, channels, length).

    Examples:
        >>> norm_statistics(nn.Sequential(nn.BatchNorm1d(3, momentum=0.99))).last_batch
        ('0',)
    """
    norms = {
        name: module
        for name, module in unwrap(model).named_modules()
        if isinstance(module, _BATCH_NORM) and module.running_mean is not None
    }
    trained = {n: m for n, m in norms.items() if m.training}
    still = [n for n, m in trained.items() if m.momentum == 0]
    ranges = [result for x in inputs if (result := scale_ranges(x)) is not None]
    worst = max(ranges, key=lambda pair: pair[1] / pair[0], default=None)
    return NormStatistics(
        still=tuple(still),
        still_at_start=tuple(n for n in still if _at_start(norms[n])),
        last_batch=tuple(
            n
            for n, m in trained.items()
            if m.momentum is not None and m.momentum >= LARGEST_MOMENTUM
        ),
        channel_range=worst[0] if worst else None,
        other_range=worst[1] if worst else None,
    )


def _at_start(norm: nn.Module) -> bool:
    mean, variance = norm.running_mean, norm.running_var
    assert isinstance(mean, Tensor)
    assert isinstance(variance, Tensor)
    return not bool(mean.any()) and bool((variance == 1).all())


def scale_ranges(x: Tensor) -> tuple[float, float] | None:
    """Largest over smallest root mean square along the second axis, and along the third.

    Examples:
        >>> x = torch.ones(4, 6, 2) * torch.tensor([1.0, 50.0])
        >>> scale_ranges(x)
        (1.0, 50.0)
    """
    if x.ndim != 3 or min(x.shape[1:]) < 2:
        return None
    square = x.detach().double().square()
    ranges = []
    for over in ((0, 2), (0, 1)):
        size = square.mean(over).sqrt()
        size = size[size > 0]
        if len(size) < 2 or not bool(torch.isfinite(size).all()):
            return None
        ranges.append(float(size.max() / size.min()))
    return ranges[0], ranges[1]
