"""A few entries of each tensor, always the same ones: enough to see whether it moved, and by how much."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

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


def gather(tensors: Sequence[Tensor]) -> tuple[Values, list[int]]:
    """The entries of several tensors in one array, with one transfer per device, and their numbers."""
    picks = [entries(tensor) for tensor in tensors]
    counts = [len(pick) for pick in picks]
    if not picks:
        return np.zeros(0), counts
    if len({pick.device for pick in picks}) > 1:
        picks = [pick.cpu() for pick in picks]
    if len({pick.dtype for pick in picks}) > 1:
        picks = [pick.double() for pick in picks]
    return torch.cat(picks).double().cpu().numpy(), counts


def sample_hashes(batch: Tensor) -> list[int]:
    """A hash of each of the first samples of a batch, from entries at fixed places."""
    flat = sample_rows(batch)
    if flat.dtype == torch.bfloat16:
        flat = flat.float()
    rows = flat.contiguous().cpu().numpy()
    return [hash(row.tobytes()) for row in rows]


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
