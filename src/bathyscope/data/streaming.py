"""Samples that are read when they are asked for: what takes the place of a tensor larger than memory."""

import multiprocessing
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.data.channels import normalize

AHEAD = 2
"""Batches that every worker reads ahead."""


@runtime_checkable
class Records(Protocol):
    """Samples on a disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> Tensor:
        """One sample, as data in memory would hold it.

        Raises:
            UsageError: its file is missing or damaged; the file is named.
        """


@dataclass(frozen=True, eq=False)
class Streamed:
    """Samples on a disk in place of a tensor: it has a shape, a dtype and a device, and is indexed.

    Attributes:
        records: where they are read from.
        rows: which of the records, in order.
        mean, std: of each channel, taken away and divided by; not for None.
        dtype, device: of what is read.
        workers: processes that read ahead; 0 reads in this one.
        skip_damaged: leave out samples whose file is missing or damaged, with a warning.
    """

    records: Records
    rows: Int64[Tensor, " n"]
    mean: Float[Tensor, " c"] | None = None
    std: Float[Tensor, " c"] | None = None
    dtype: torch.dtype = torch.float32
    device: torch.device = torch.device("cpu")  # noqa: RUF009  immutable
    workers: int = 0
    skip_damaged: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """As of a tensor with all samples."""
        return (len(self.rows), *self.records.shape)

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: int | slice | Tensor) -> Tensor:
        """The samples, read now in this process."""
        rows = self.rows[chosen]
        if rows.ndim == 0:
            return self._finish(self.records.read(int(rows))[None])[0]
        return self._finish(torch.stack([self.records.read(int(row)) for row in rows]))

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """As of a tensor; samples are its first axis."""
        assert dim == 0
        return self[index.cpu()]

    def is_floating_point(self) -> bool:
        """Whether samples are of real numbers."""
        return self.dtype.is_floating_point

    def to(self, kind: torch.dtype | torch.device | str) -> "Streamed":
        """The same samples, of another dtype or on another device once they are read."""
        if isinstance(kind, torch.dtype):
            return replace(self, dtype=kind)
        return replace(self, device=torch.device(kind))

    def normalized(self, mean: Float[Tensor, " c"], std: Float[Tensor, " c"]) -> "Streamed":
        """The same samples, every channel shifted by `mean` and divided by `std`."""
        return replace(self, mean=mean, std=std)

    def subset(self, chosen: Tensor | slice) -> "Streamed":
        """Some of the samples; none is read."""
        return replace(self, rows=self.rows[chosen])

    def batches(self, orders: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor | None]]:
        """One batch after the other, read ahead by the workers.

        Args:
            orders: the samples of each batch.

        Yields:
            The batch and, where damaged samples were left out of it, the places of those kept.

        Raises:
            UsageError: a file is missing or damaged, and `skip_damaged` is not set.
            BathyscopeError: a worker was ended.
        """
        loader = DataLoader(
            _BatchReader(self),
            batch_sampler=[self.rows[order.cpu()].tolist() for order in orders],
            num_workers=self.workers,
            collate_fn=_as_it_is,
            prefetch_factor=AHEAD if self.workers else None,
            # its own: it would take a number of torch's, which a run that is resumed takes twice
            generator=torch.Generator(),
        )
        with describe_lost_reader():
            for number, (samples, faults) in enumerate(loader):
                kept = self._keep_sound(len(orders[number]), faults)
                yield self._finish(samples), kept

    def _keep_sound(self, size: int, faults: dict[int, str]) -> Tensor | None:
        if not faults:
            return None
        first = next(iter(faults.values()))
        if not self.skip_damaged or len(faults) == size:
            raise UsageError(first)
        warnings.warn(f"{len(faults)} of {size} samples were left out: {first}", stacklevel=3)
        return torch.tensor([location for location in range(size) if location not in faults])

    def _finish(self, samples: Tensor) -> Tensor:
        if self.mean is not None and self.std is not None:
            samples = normalize(samples, mean=self.mean, std=self.std)
        return samples.to(self.dtype).to(self.device)


@contextmanager
def describe_lost_reader() -> Iterator[None]:
    """Within, torch's error of a reading process that has ended becomes a sentence.

    Torch raises it wherever the main thread is when the process ends, in the middle of a training step
    as well as where a batch is asked for.

    Raises:
        BathyscopeError: a process that reads ahead was ended.
    """
    try:
        yield
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise BathyscopeError(
            "A process that reads the data ahead was ended, by the system for want of memory or "
            "by someone; use fewer workers or smaller batches, and resume from the last checkpoint."
        ) from error


def usual_workers() -> int:
    """Half of the processors, four at most; none inside a process that may start no others."""
    if multiprocessing.current_process().daemon:
        return 0
    return max(1, min(4, (os.cpu_count() or 1) // 2))


class _BatchReader(Dataset[Tensor]):
    """What a worker has of a stream: it reads whole batches, and hands faults over as words.

    An exception would come out of the loader with the trace of the worker in its text.
    """

    def __init__(self, stream: Streamed) -> None:
        self.records = stream.records

    def __getitems__(self, rows: list[int]) -> tuple[Tensor, dict[int, str]]:
        samples, faults = [], {}
        for location, row in enumerate(rows):
            try:
                samples.append(self.records.read(row))
            except UsageError as error:
                faults[location] = str(error)
        empty = torch.empty(0, *self.records.shape)
        return torch.stack(samples) if samples else empty, faults


def _as_it_is(result: object) -> object:
    """What a reader gives for a batch is a batch already."""
    return result
