"""Small tensors of a pass, kept until there are many of a shape to work on at once."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from bathyscope.core.records import Block

_SMALL = 2**16
"""Entries: for larger tensors the numbers cost more than the calls."""
_MOST = 2**22
"""Entries that are kept together: 16 MB in float32."""


class Seen(NamedTuple):
    """A copy of what a block gave or got."""

    block: Block
    tensor: Tensor


class Later:
    """Hands tensors over in lists: small ones together, a large one at once and alone.

    A tensor of a pass may be overwritten after the call that shows it, so a small one is copied.
    """

    def __init__(self, work: Callable[[list[Seen]], None]) -> None:
        self.work = work
        self.kept: list[Seen] = []
        self.entries = 0

    def add(self, block: Block, tensor: Tensor) -> None:
        """Keep a tensor, or hand it over where it is large."""
        if tensor.numel() > _SMALL:
            self.work([Seen(block, tensor)])
            return
        self.kept.append(Seen(block, tensor.clone()))
        self.entries += tensor.numel()
        if self.entries > _MOST:
            self.flush()

    def flush(self) -> None:
        """Hand over what is kept."""
        kept, self.kept, self.entries = self.kept, [], 0
        if kept:
            self.work(kept)
