"""Whether the channels of images are interleaved: bytes of a pixel taken for neighbors of a row."""

from dataclasses import dataclass

import torch
from torch import Tensor

_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class ChannelOrder:
    """How unlike pixels are, by the distance between them along a row.

    Attributes:
        channels: C, how many the images have.
        step: mean absolute difference of pixels one apart.
        period: the same for pixels C apart: larger in a picture, smaller where rows are interleaved channels.
        column_step: the same for pixels one apart along a column.
    """

    channels: int
    step: float
    period: float
    column_step: float

    @property
    def interleaved(self) -> bool:
        """Whether pixels C apart along a row are clearly more alike than neighbors are."""
        return self.period < INTERLEAVED * self.step


INTERLEAVED = 0.75
"""In pictures differences grow with the distance (ratio above 1); in noise the ratio is 1 ± 0.02."""


def channel_order(images: Tensor) -> ChannelOrder | None:
    """Differences along rows at distance 1 and at distance C, of images (samples, C, height, width).

    Where (height, width, C) was reshaped to (C, height, width) in place of a permutation, a row holds the
    channels of one pixel beside each other, and pixels C apart are neighbors.

    Returns:
        None where there are no images with several channels that differ.

    Examples:
        >>> ramp = torch.linspace(0, 1, 16)[None, :, None] * torch.tensor([1.0, 0.2, 0.6])  # height, width, C
        >>> picture = (ramp + torch.tensor([0.0, 2.0, -1.0])).expand(4, 16, 16, 3)
        >>> channel_order(picture.permute(0, 3, 1, 2)).interleaved
        False
        >>> channel_order(picture.reshape(4, 3, 16, 16)).interleaved
        True
    """
    if images.ndim != 4 or not images.is_floating_point() or images.shape[1] not in (2, 3, 4):
        return None
    channels, width = images.shape[1], images.shape[3]
    if width < 4 * channels or images.shape[2] < 4 or not bool(torch.isfinite(images).all()):
        return None
    x = images[:_SAMPLES].detach().double()
    step = float((x[..., 1:] - x[..., :-1]).abs().mean())
    period = float((x[..., channels:] - x[..., :-channels]).abs().mean())
    column = float((x[..., 1:, :] - x[..., :-1, :]).abs().mean())
    return ChannelOrder(channels, step, period, column) if step > 0 else None
