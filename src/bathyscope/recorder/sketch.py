"""A few entries of each tensor, always the same ones: enough to see whether it moved, and by how much."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from bathyscope.core.fetch import to_host

ENTRIES = 32
"""Entries of each tensor that are looked at."""

Values = np.ndarray[tuple[int, ...], np.dtype[np.floating[Any]]]
_PER_SAMPLE = 64
_MOST_SAMPLES = 32


def local_part(tensor: Tensor) -> Tensor:
    """The tensor; of a distributed one the shard that lies in this process."""
    tensor = tensor.detach()
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def entries(tensor: Tensor) -> Tensor:
    """Up to 32 entries at fixed places spread over a tensor; a view where its layout allows one."""
    tensor = local_part(tensor)
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    count = tensor.numel()
    if not tensor.is_contiguous():
        if count > 1 << 16 and tensor.ndim > 1:  # a copy of all of it would cost too much
            return entries(tensor.select(0, 0))
        tensor = tensor.contiguous()
    flat = tensor.view(-1)
    # an odd stride walks through all columns of a matrix whose width is a power of two
    return flat if count <= ENTRIES else flat[:: (count // ENTRIES) | 1][:ENTRIES]


def can_be_read(tensor: Tensor) -> bool:
    """Whether its values are there and real: not on the meta device, complex, quantized or lazy."""
    return not (tensor.is_meta or tensor.is_complex() or tensor.is_quantized or is_lazy(tensor))


def gather(*several: Sequence[Tensor]) -> list[tuple[Values, list[int]]]:
    """The entries of each sequence of tensors in one array, and how many each tensor has.

    Those of a device come in one transfer.
    """
    joined, counts = [], []
    for tensors in several:
        picks = [entries(tensor) for tensor in tensors]
        counts.append([len(pick) for pick in picks])
        if len({(pick.device, pick.dtype) for pick in picks}) > 1:
            picks = [pick.double() for pick in to_host(picks)]
        joined.append(torch.cat(picks) if picks else torch.zeros(0, device="cpu"))
    arrays = [tensor.double().numpy() for tensor in to_host(joined)]
    return list(zip(arrays, counts, strict=True))


def sample_hashes(batch: Tensor) -> list[int]:
    """A hash of each of the first samples of a batch, from entries at fixed places."""
    return hashes_of(sample_rows(batch))


def hashes_of(rows: Tensor) -> list[int]:
    """A hash of each of the rows that `sample_rows` gives."""
    if rows.dtype == torch.bfloat16:
        rows = rows.float()
    return [hash(row.tobytes()) for row in rows.contiguous().cpu().numpy()]


def checksum(tensor: Tensor) -> int:
    """Of some entries, bit for bit; the same in every process."""
    values = entries(tensor)
    if values.dtype == torch.bfloat16:
        values = values.view(torch.int16)
    return zlib.crc32(values.contiguous().cpu().numpy().tobytes()) or 1


def sample_rows(batch: Tensor) -> Tensor:
    """Entries at fixed places of each of the first samples of a batch."""
    batch = batch.detach()[:_MOST_SAMPLES]
    flat = batch.reshape(len(batch), -1)
    return flat[:, :: (flat.shape[1] // _PER_SAMPLE) | 1] if flat.shape[1] > _PER_SAMPLE else flat


def root_mean_square(values: Iterable[float] | Values) -> float:
    """√(mean v²); 0 for none."""
    array = np.asarray(values, dtype=np.float64)
    return float(np.sqrt(np.mean(array * array))) if array.size else 0.0


_ENTRIES = 8
_OF_NUMPY = (torch.float32, torch.float64)


class EntryViews:
    """Views of entries at fixed places of parameters on the CPU; the others are left out.

    Reading through numpy takes a fifth of a microsecond for each parameter. A parameter whose memory was
    replaced is read at its new place from then on.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = [
            (index, p)
            for index, p in enumerate(parameters)
            if type(p) in (Tensor, nn.Parameter)
            and p.device.type == "cpu"
            and p.dtype in _OF_NUMPY
            and p.numel()
            and can_be_read(p)
            and p.is_contiguous()
        ]
        self._pointers: list[int] = []
        self._views: list[Any] = []
        self._kept: list[list[float]] | None = None

    def keep(self) -> None:
        """Remember the entries as they are now."""
        self._kept = self._read()

    def changed(self) -> list[int]:
        """Places of the parameters of which an entry differs bit for bit from what was kept."""
        if self._kept is None:
            return []
        now = self._read()
        return [
            index
            for (index, _), a, b in zip(self._parameters, now, self._kept, strict=True)
            if any(x != y and (x == x or y == y) for x, y in zip(a, b, strict=True))
        ]

    def _read(self) -> list[list[float]]:
        pointers = [p.data_ptr() for _, p in self._parameters]
        if pointers != self._pointers:
            # not a view where the layout allows none; all of these are contiguous
            self._views = [entries(p)[:_ENTRIES].numpy() for _, p in self._parameters]
            self._pointers = pointers
        return [view.tolist() for view in self._views]
