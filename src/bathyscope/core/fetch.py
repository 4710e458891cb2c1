"""Numbers from a device to the host, many at once: each transfer alone makes the host wait."""

from collections.abc import Sequence

import torch
from torch import Tensor


def fetch(tensors: Sequence[Tensor]) -> list[list[float]]:
    """The entries of each tensor as numbers; those of one device come in one transfer.

    Examples:
        >>> fetch([torch.tensor(2.0), torch.tensor([1.0, 3.0])])
        [[2.0], [1.0, 3.0]]
    """
    result: list[list[float]] = [[] for _ in tensors]
    there: dict[torch.device, list[int]] = {}
    for i, tensor in enumerate(tensors):
        if tensor.device.type == "cpu":
            result[i] = [float(v) for v in tensor.reshape(-1).tolist()]
        else:
            there.setdefault(tensor.device, []).append(i)
    for places in there.values():
        dtype = tensors[places[0]].dtype
        for i in places:
            dtype = torch.promote_types(dtype, tensors[i].dtype)
        if dtype.is_floating_point:  # counts beside numbers in half precision keep their digits
            dtype = torch.promote_types(dtype, torch.float32)
        flat = [tensors[i].detach().reshape(-1).to(dtype) for i in places]
        numbers = [float(number) for number in torch.cat(flat).tolist()]
        start = 0
        for i, part in zip(places, flat, strict=True):
            result[i] = numbers[start : start + len(part)]
            start += len(part)
    return result
