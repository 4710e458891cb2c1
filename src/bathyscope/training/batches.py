"""The order and augmentation of the data, as functions of seed, epoch and step alone.

Nothing is sampled from a running generator, so a run can be taken up at any step: batch `i` of epoch
`e` is the same whether or not the batches before it were read.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

from bathyscope.core.arguments import check_kind
from bathyscope.core.errors import UsageError, shorten
from bathyscope.data import Streamed, flip_and_shift
from bathyscope.training.config import TrainingConfig

Examples = tuple[Tensor, Tensor]
"""Inputs and targets, one row per sample."""

Data = tuple[Tensor | Streamed, Tensor | Streamed]
"""The same in memory or on the disk."""


def derived_seed(seed: int, *names: str | int) -> int:
    """A seed for one purpose, independent of those for others.

    Examples:
        >>> derived_seed(0, "order", 1) == derived_seed(0, "order", 2)
        False
    """
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


@dataclass(frozen=True)
class TrainingBatches:
    """The batches of every epoch of a run.

    Args:
        examples: the training set.
        config: seed, batch_size, drop_last, flip, shift.
    """

    examples: Data
    config: TrainingConfig

    @property
    def batch_size(self) -> int:
        """Samples in a full batch."""
        return min(self.config.batch_size or self.num_samples, self.num_samples)

    @property
    def num_samples(self) -> int:
        """Samples in the training set."""
        return len(self.examples[0])

    @property
    def per_epoch(self) -> int:
        """Batches in an epoch."""
        whole, rest = divmod(self.num_samples, self.batch_size)
        return whole if self.config.drop_last or not rest else whole + 1

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Examples]:
        """The batches of an epoch, from batch `start` on."""
        inputs, targets = self.examples
        if self.per_epoch == 1:  # an order within the one batch would change only rounding
            order = torch.arange(self.num_samples)
            if start == 0 and not isinstance(inputs, Streamed):
                yield self._augment(inputs, epoch, 0), targets[:]
                return
        else:
            generator = torch.Generator()
            generator.manual_seed(derived_seed(self.config.seed, "order", epoch))
            order = torch.randperm(self.num_samples, generator=generator, device="cpu")
        order = order.to(inputs.device)
        orders = [
            order[index * self.batch_size : (index + 1) * self.batch_size]
            for index in range(start, self.per_epoch)
        ]
        for index, (x, y) in enumerate(read_batches(self.examples, orders), start=start):
            if self.config.channels_last and x.ndim == 4:
                x = x.contiguous(memory_format=torch.channels_last)
            yield self._augment(x, epoch, index), y

    def _augment(self, x: Tensor, epoch: int, index: int) -> Tensor:
        if not (self.config.flip or self.config.shift):
            return x
        generator = torch.Generator().manual_seed(
            derived_seed(self.config.seed, "augment", epoch, index)
        )
        return flip_and_shift(
            x, generator=generator, shift=self.config.shift, flip=self.config.flip
        )


def read_batches(examples: Data, orders: Sequence[Tensor]) -> Iterator[Examples]:
    """The batches with these samples; those of a stream are read ahead by its workers."""
    inputs, targets = examples
    if isinstance(inputs, Streamed):
        for rows, (x, kept) in zip(orders, inputs.batches(orders), strict=True):
            y = targets.index_select(0, rows)
            yield x, y if kept is None else y[kept.to(y.device)]
        return
    for rows in orders:
        yield inputs.index_select(0, rows), targets.index_select(0, rows)


def check_pair(examples: object, *, what: str) -> Data:
    """A pair of tensors, or of streams of them, with samples along the first axis.

    Raises:
        UsageError: it is something else.
    """
    if (
        isinstance(examples, (tuple, list))
        and len(examples) == 2
        and all(isinstance(part, (Tensor, Streamed)) and part.ndim for part in examples)
    ):
        return examples[0], examples[1]
    raise UsageError(
        f"The {what} set is a pair of tensors (inputs, targets), but {shorten(examples)} was given."
    )


def check_examples(examples: Data, config: TrainingConfig, *, what: str) -> None:
    """Refuse a set that cannot be trained on.

    Raises:
        UsageError: it is not a pair of tensors, empty, inputs and targets differ in number, or
            augmentation meets no images.
    """
    inputs, targets = check_pair(examples, what=what)
    check_kind("config", config, TrainingConfig)
    if len(inputs) == 0 or len(inputs) != len(targets):
        raise UsageError(
            f"The {what} set has {len(inputs)} inputs and {len(targets)} targets; "
            "give as many of one as of the other, and at least one."
        )
    if (config.flip or config.shift) and inputs.ndim != 4:
        raise UsageError(
            f"flip and shift work on images (n, c, h, w), but the {what} inputs have shape "
            f"{tuple(inputs.shape)}; switch them off."
        )


@overload
def convert_examples(examples: Examples, config: TrainingConfig) -> Examples: ...
@overload
def convert_examples(examples: Data, config: TrainingConfig) -> Data: ...
def convert_examples(examples: Data, config: TrainingConfig) -> Data:
    """Inputs (and real targets) in the run's dtype and memory format."""
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    inputs, targets = (t.to(dtype) if t.is_floating_point() else t for t in examples)
    if config.channels_last and isinstance(inputs, Tensor) and inputs.ndim == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return inputs, targets
