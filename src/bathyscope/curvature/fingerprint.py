"""Whether the values that a kept graph was made from have changed since."""

import zlib
from collections.abc import Iterable

import torch
from torch import Tensor

from bathyscope.core.nested import tensors_in
from bathyscope.curvature.objective import Objective

Fingerprint = tuple[object, ...]


def fingerprint(objective: Objective, parameters: Iterable[Tensor]) -> Fingerprint:
    """Differs whenever a value that the matrix depends on does: parameters, buffers or kept data.

    The version that autograd counts is compared, because a graph refuses to run once it has moved,
    and a checksum over the bytes in their order, because `p.data`, numpy and DLPack change values
    behind autograd's back. Buffers go by their values alone: a session works on copies of them.
    """
    own: list[tuple[Tensor, Fingerprint]]
    own = [(p, (p.data_ptr(), _version(p), p.requires_grad)) for p in parameters]
    own += [(b, ()) for b in objective.model.buffers()]
    own += [(t, (_version(t),)) for b in objective.batches.held for t in tensors_in(b)]
    sums = _checksums([tensor for tensor, _ in own])
    return tuple((*known, total) for (_, known), total in zip(own, sums, strict=True))


def _checksums(tensors: list[Tensor]) -> list[int]:
    """The checksum of each; those of a device are computed there and fetched together."""
    result = [0] * len(tensors)
    there: dict[torch.device, list[int]] = {}
    for i, tensor in enumerate(tensors):
        if tensor.device.type == "cpu" or tensor.layout is not torch.strided:
            result[i] = checksum(tensor)
        else:
            there.setdefault(tensor.device, []).append(i)
    for places in there.values():
        fetched = torch.stack([_sum_on_device(tensors[i]) for i in places]).tolist()
        for i, total in zip(places, fetched, strict=True):
            result[i] = total
    return result


_STRIDE = 0x1E3779B97F4A7C14  # even, and without a pattern
_CHUNK = 2**22


def _sum_on_device(tensor: Tensor) -> Tensor:
    """Σ_i wᵢ bitsᵢ modulo 2⁶⁴ with odd weights wᵢ that differ: one changed entry always shows."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    values = tensor.detach().contiguous().view(-1)
    if values.is_complex():
        values = torch.view_as_real(values).view(-1)
    bits = values.view(kinds[values.element_size()])
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for start in range(0, bits.numel(), _CHUNK):
        part = bits[start : start + _CHUNK].long()
        place = torch.arange(start, start + len(part), device=tensor.device)
        total = total + (part * (place * _STRIDE + 1)).sum()
    return total


def checksum(tensor: Tensor) -> int:
    """CRC-32 of a tensor's bytes in the order of its elements.

    Examples:
        >>> a = torch.tensor([[1.0, -1.0]])
        >>> checksum(a) == checksum(a.clone()), checksum(a) == checksum(a.flip(1))
        (True, False)
    """
    values = tensor.detach()
    if values.layout is not torch.strided:
        sparse = values.to_sparse_coo().coalesce()
        return hash((checksum(sparse.indices()), checksum(sparse.values())))
    if values.is_floating_point() and values.element_size() < 4:  # numpy lacks most of these
        values = values.reshape(-1).view(torch.uint8)
    return zlib.crc32(values.cpu().contiguous().numpy().data)


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
