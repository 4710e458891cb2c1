"""How much memory a choice of data takes, said before it is taken."""

import math
from dataclasses import dataclass

import torch

from bathyscope.core.devices import available_bytes, readable_size
from bathyscope.data.streaming import AHEAD, usual_workers

_FRACTION = 0.5
"""Of the free memory, that data in memory may take: training needs the rest."""

_BATCH = 256


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What a data set takes.

    Attributes:
        whole: bytes of its images and labels in memory.
        streamed: bytes of the batches that are read ahead, of 256 samples each, and of the labels.
        free: bytes that are free now.
    """

    whole: int
    streamed: int
    free: int

    @property
    def fits(self) -> bool:
        """Whether it can be held in memory, with as much left for training."""
        return self.whole <= _FRACTION * self.free

    def __str__(self) -> str:
        which = "it fits in memory" if self.fits else "it is read from the disk as it is needed"
        return (
            f"{readable_size(self.whole)} in memory, about {readable_size(self.streamed)} streamed; "
            f"{readable_size(self.free)} are free: {which}."
        )


def need_of(shape: tuple[int, ...], num_samples: int) -> MemoryNeed:
    """What this many samples of a shape take, in float32, with their labels.

    Examples:
        >>> need_of((3, 224, 224), 1_331_167).whole / 2**30 > 700
        True
    """
    sample = 4 * math.prod(shape)
    labels = 8 * num_samples
    ahead = (AHEAD * max(1, usual_workers()) + 1) * min(_BATCH, num_samples) * sample
    return MemoryNeed(
        num_samples * sample + labels, ahead + labels, available_bytes(torch.device("cpu"))
    )
