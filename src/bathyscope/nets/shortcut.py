"""Shortcuts around a block of convolutions, by the size it starts from and the one it ends at."""

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

ShortcutKind = Literal["A", "B"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a convolutional block stands: channels in, channels out, stride."""

    in_channels: int
    out_channels: int
    stride: int = 1

    @property
    def changes_dimension(self) -> bool:
        """Whether input and output differ in shape."""
        return self.stride != 1 or self.in_channels != self.out_channels


def stages(
    num_blocks: int | tuple[int, ...], widths: tuple[int, ...], in_channels: int
) -> list[Place]:
    """The places of all blocks: each stage has its width, and each but the first halves the image.

    Args:
        num_blocks: blocks in every stage, or in each.
        widths: output channels of each stage.
        in_channels: channels that reach the first block.

    Examples:
        >>> stages(2, (16, 32), 16)[2:]
        [Place(in_channels=16, out_channels=32, stride=2), Place(in_channels=32, out_channels=32, stride=1)]
    """
    counts = (num_blocks,) * len(widths) if isinstance(num_blocks, int) else num_blocks
    locations = []
    for stage, (count, width) in enumerate(zip(counts, widths, strict=True)):
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            locations.append(Place(in_channels, width, stride))
            in_channels = width
    return locations


class Subsample(nn.Module):
    """Option A: take every `stride`-th pixel and add channels of zeros; it has no parameters.

    Examples:
        >>> import torch
        >>> Subsample(Place(2, 4, 2))(torch.ones(1, 2, 7, 7)).shape
        torch.Size([1, 4, 4, 4])
    """

    def __init__(self, location: Place) -> None:
        super().__init__()
        self.stride = location.stride
        self.extra_channels = location.out_channels - location.in_channels

    def forward(self, x: Float[Tensor, " n c h w"]) -> Float[Tensor, " n d p q"]:
        """The subsampled input; with fewer outputs than inputs the last channels are left out."""
        if self.stride != 1:
            x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, 0, self.extra_channels))


def projection(location: Place) -> nn.Conv2d:
    """Option B without normalization: a 1×1 convolution to the new dimension."""
    return nn.Conv2d(
        location.in_channels, location.out_channels, 1, stride=location.stride, bias=False
    )


def projection_then_norm(location: Place) -> nn.Module:
    """Option B of post-activation networks: 1×1 convolution, then batch normalization."""
    return nn.Sequential(projection(location), nn.BatchNorm2d(location.out_channels))


def norm_then_projection(location: Place) -> nn.Module:
    """Option B of pre-activation networks: batch normalization, ReLU, then 1×1 convolution."""
    return nn.Sequential(nn.BatchNorm2d(location.in_channels), nn.ReLU(), projection(location))
