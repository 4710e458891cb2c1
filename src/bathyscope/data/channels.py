"""Normalization of images channel by channel."""

import torch
from jaxtyping import Float
from torch import Tensor


def channel_statistics(
    images: Float[Tensor, " n c h w"],
) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
    """Mean and standard deviation of each channel over all images and pixels.

    The deviation is that of the population (divided by n·h·w), summed in float64. A constant
    channel has deviation 1, so that dividing by it is harmless.

    Examples:
        >>> mean, std = channel_statistics(torch.tensor([0.0, 2.0]).reshape(2, 1, 1, 1))
        >>> mean.item(), std.item()
        (1.0, 1.0)
    """
    # One channel at a time: a float64 copy of the whole set would be twice the set itself.
    pairs = [
        torch.var_mean(images[:, channel].double(), correction=0)
        for channel in range(images.shape[1])
    ]
    mean = torch.stack([mean for _, mean in pairs])
    std = torch.stack([variance for variance, _ in pairs]).sqrt()
    # Rounding leaves a constant channel with a deviation of some eps times its value.
    tiny = mean.abs().clamp(min=1.0) * 1e-12
    std = torch.where(std > tiny, std, torch.ones_like(std))
    return mean.to(images.dtype), std.to(images.dtype)


def normalize(
    images: Float[Tensor, " n c h w"], *, mean: Float[Tensor, " c"], std: Float[Tensor, " c"]
) -> Float[Tensor, " n c h w"]:
    """Images with `mean` taken away and divided by `std`, channel by channel.

    Examples:
        >>> images = torch.rand(64, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> mean, std = channel_statistics(images)
        >>> normalize(images, mean=mean, std=std).var(correction=0).round(decimals=4).item()
        1.0
    """
    mean = mean.to(images)
    std = std.to(images)
    return (images - mean[:, None, None]) / std[:, None, None]
