"""What the measurements of blocks share: the blocks, the axes of their tensors, the rows of a record."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, check_batch, check_parameters
from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.calls import Members, members_of
from bathyscope.core.fetch import SMALL, Readings, to_host
from bathyscope.core.records import Block, Measurement, Number
from bathyscope.linalg.norms import frobenius_norm, norm_on_device


class Rows:
    """One row per block. A value that was never put, or is not a number, is None in the record."""

    def __init__(self, blocks: Blocks, columns: tuple[str, ...]) -> None:
        self.blocks = blocks
        self.values: dict[str, dict[int, Number]] = {column: {} for column in columns}
        self.notes: dict[str, None] = {blocks.note: None} if blocks.note else {}

    def put(self, block: Block, **values: Number) -> None:
        """Set values of one block; columns that no block has had before are added."""
        for column, value in values.items():
            if isinstance(value, float) and math.isnan(value):
                value = None
            self.values.setdefault(column, {})[block.index] = value

    def note(self, text: str) -> None:
        """Say something once, however many blocks it concerns."""
        self.notes[text] = None

    def measurement(self, name: str, **settings: object) -> Measurement:
        """The record of what was put."""
        return Measurement(
            name=name,
            blocks=tuple(self.blocks),
            columns={
                column: tuple(values.get(block.index) for block in self.blocks)
                for column, values in self.values.items()
            },
            settings=settings,
            notes=tuple(self.notes),
        )


def fraction_non_finite(tensor: Tensor) -> float:
    """Fraction of entries that are NaN or infinite."""
    # 0·x is 0 only where x is finite: a third of the time of isfinite(x).sum()
    return 1 - torch.count_nonzero(tensor * 0 == 0).item() / max(1, tensor.numel())


def norm_and_fraction_non_finite(tensor: Tensor) -> tuple[float, float]:
    """The Frobenius norm, and the fraction of entries that are NaN or infinite, looked for only if it is.

    Examples:
        >>> norm_and_fraction_non_finite(torch.tensor([3.0, 4.0]))
        (5.0, 0.0)
    """
    norm = frobenius_norm(tensor)
    return norm, 0.0 if math.isfinite(norm) else fraction_non_finite(tensor)


def read_norm(readings: Readings, tensor: Tensor, then: Callable[[float, float], None]) -> None:
    """Call `then` with `norm_and_fraction_non_finite`, of a device once the pass is over.

    Examples:
        >>> read_norm(Readings(), torch.tensor([3.0, 4.0]), print)
        5.0 0.0
    """
    if tensor.device.type == "cpu":
        then(*norm_and_fraction_non_finite(tensor))
    elif tensor.numel() <= SMALL:
        readings.add(lambda x: then(*norm_and_fraction_non_finite(x)), tensor.clone())
    else:
        finite, entries = torch.count_nonzero(tensor * 0 == 0), tensor.numel()
        readings.add(
            lambda norm, number: then(norm.item(), 1 - number.item() / entries),
            norm_on_device(tensor),
            finite,
        )


def find_blocks(model: nn.Module, batch: Batch, blocks: Iterable[str] | Blocks | None) -> Blocks:
    """The blocks of the model as the inputs of the batch run through it.

    Raises:
        UsageError: the model has no parameters, or the batch cannot be used.
    """
    check_parameters(model)
    inputs, _ = check_batch(model, batch)
    return blocks_of(model, inputs, blocks=blocks)


_SPATIAL = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_CONVOLUTIONAL = (nn.modules.conv._ConvNd, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@dataclass(frozen=True, slots=True)
class Axes:
    """The names of a tensor's axes, and which are the samples' and the units'."""

    names: tuple[str, ...]
    samples: int
    units: int


def axes_of(model: nn.Module | Members, block: Block, *, ndim: int) -> Axes:
    """Name the axes of what a block passes on.

    Convolutions put units second (samples, channels, height, width); everything else puts them
    last (samples, tokens, features), and samples second where a layer says `batch_first=False`.

    Examples:
        >>> conv = nn.Sequential(nn.Conv2d(3, 8, 3))
        >>> axes_of(conv, Block(index=0, name="0", end="0", kind="Conv2d"), ndim=4).names
        ('samples', 'channels', 'height', 'width')
    """
    if ndim <= 2:
        return Axes(("samples", "features")[:ndim], 0, ndim - 1)
    modules = members_of(model).of(block).values()
    if any(isinstance(module, _CONVOLUTIONAL) for module in modules):
        spatial = _SPATIAL.get(ndim - 2) or tuple(f"axis {i}" for i in range(2, ndim))
        return Axes(("samples", "channels", *spatial), 0, 1)
    if ndim == 3:
        if any(getattr(module, "batch_first", True) is False for module in modules):
            return Axes(("tokens", "samples", "features"), 1, 2)
        return Axes(("samples", "tokens", "features"), 0, 2)
    spatial = _SPATIAL.get(ndim - 2) or tuple(f"axis {i}" for i in range(1, ndim - 1))
    return Axes(("samples", *spatial, "channels"), 0, ndim - 1)


_SMALL = SMALL
"""Entries: for larger tensors the numbers cost more than the calls."""
_MOST = 2**22
"""Entries that are kept together: 16 MB in float32."""


class Seen(NamedTuple):
    """A copy of what a block gave or got."""

    block: Block
    tensor: Tensor


class Later:
    """Hands tensors over in lists: small ones together, a large one at once and alone.

    A tensor of a pass may be overwritten after the call that shows it, so a small one is copied. Small ones
    of a device are handed over on the CPU, where they come in one transfer.
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
            tensors = to_host([one.tensor for one in kept])
            self.work([Seen(one.block, t) for one, t in zip(kept, tensors, strict=True)])
