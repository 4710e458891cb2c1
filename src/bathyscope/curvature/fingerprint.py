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
    own = [(p.data_ptr(), _version(p), p.requires_grad, checksum(p)) for p in parameters]
    buffers = [checksum(b) for b in objective.model.buffers()]
    data = [(_version(t), checksum(t)) for b in objective.batches.held for t in tensors_in(b)]
    return (*own, *buffers, *data)


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
