"""Whether masks fit their pictures better when they are mirrored."""

import torch
from jaxtyping import Float
from torch import Tensor

_MOST_CLASSES = 64
_TELLING = 0.1
"""Fraction of a picture's variance that a mask explains, from which its fit says something."""
_CLEARLY = 1.5


def flipped_fraction(pictures: Tensor, masks: Tensor) -> float | None:
    """Fraction of the samples whose mask, mirrored left to right or upside down, explains its picture better.

    A mask explains a picture by the variance between the means of its classes. Samples that no mask explains,
    and those that fit both ways, are left out.

    Args:
        pictures: (samples, channels, height, width).
        masks: (samples, height, width) of classes, or (samples, 1, height, width) of 0 and 1.

    Returns:
        None where these are not pictures with masks, or fewer than four samples say anything.

    Examples:
        >>> pictures = torch.zeros(6, 1, 8, 8)
        >>> pictures[..., :3] = 1.0
        >>> masks = (pictures[:, 0] > 0).long()
        >>> flipped_fraction(pictures, masks), flipped_fraction(pictures.flip(3), masks)
        (0.0, 1.0)
    """
    if masks.ndim == 4 and masks.shape[1] == 1:
        masks = masks[:, 0]
    is_picture = pictures.ndim == 4 and pictures.is_floating_point()
    if not is_picture or masks.ndim != 3 or masks.shape != (len(pictures), *pictures.shape[2:]):
        return None
    labels = (masks > 0.5).long() if masks.is_floating_point() else masks.long().clamp_min(0)
    if int(labels.max()) >= _MOST_CLASSES or int(labels.max()) == 0:
        return None
    own = _explained(pictures, labels)
    mirrored = torch.stack([_explained(pictures, labels.flip(a)) for a in (1, 2)])
    telling = torch.maximum(own, mirrored.amax(0)) > _TELLING
    better = (mirrored > _CLEARLY * own).any(0)
    worse = (own > _CLEARLY * mirrored).any(0)
    decided = int((telling & (better | worse)).sum())
    return int((telling & better).sum()) / decided if decided >= 4 else None


def _explained(pictures: Tensor, labels: Tensor) -> Float[Tensor, " samples"]:
    """Variance between the classes over that of all pixels, of the channel where it is largest."""
    x = pictures.detach().flatten(2).double()
    hot = torch.nn.functional.one_hot(labels.flatten(1)).double()
    counts = hot.sum(1)
    means = torch.einsum("ncp,npk->nck", x, hot) / counts.clamp_min(1)[:, None]
    whole = x.mean(2, keepdim=True)
    between = ((means - whole).square() * counts[:, None]).sum(2) / x.shape[2]
    return (between / x.var(2, correction=0).clamp_min(1e-12)).amax(1)
