"""Flip and shift: the augmentation of the CIFAR experiments."""

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.nn.functional import pad

from bathyscope.core.errors import UsageError


def flip_and_shift(
    images: Shaped[Tensor, " n c h w"],
    *,
    generator: torch.Generator,
    shift: int = 4,
    flip: bool = True,
) -> Shaped[Tensor, " n c h w"]:
    """Each image moved by up to `shift` pixels and mirrored with probability one half.

    The image is padded with `shift` zeros on every side and a window of its own size is cut out at
    a place drawn uniformly: 4 for CIFAR (norm_preservation, section 4). On normalized images
    the zeros are the mean color.

    Args:
        images: a batch; dtype and device are kept, and the input is left as it is.
        generator: of the draws; the same state gives the same result on every device.
        shift: the largest move in each direction, in pixels.
        flip: whether to mirror left and right.

    Returns:
        A new batch of the same shape.

    Raises:
        UsageError: `shift` is negative.

    Examples:
        >>> images = torch.arange(6.0).reshape(1, 1, 2, 3)
        >>> moved = flip_and_shift(images, generator=torch.Generator().manual_seed(0), shift=1)
        >>> moved.shape
        torch.Size([1, 1, 2, 3])
    """
    if shift < 0:
        raise UsageError(f"The shift is {shift}; give a number of pixels, zero or more.")
    n, _, height, width = images.shape
    device = generator.device
    offsets = torch.randint(0, 2 * shift + 1, (2, n), generator=generator, device=device)
    mirrored = torch.rand(n, generator=generator, device=device) < 0.5

    rows, columns = offsets.to(images.device)
    # Every window is a view of the padded batch; indexing copies just the chosen ones.
    padded = pad(images, (shift, shift, shift, shift))
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    moved = windows[torch.arange(n, device=images.device), :, rows, columns]
    if not flip:
        return moved
    return torch.where(mirrored.to(images.device)[:, None, None, None], moved.flip(-1), moved)
