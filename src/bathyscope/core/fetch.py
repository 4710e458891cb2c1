"""Numbers from a device to the host, many at once: each transfer alone makes the host wait."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

SMALL = 2**16
"""Entries of a tensor that is reduced on the host: of larger ones only what was made of them is fetched."""
_MOST_BYTES = 2**24
"""That come in one transfer: they are put together on the device first."""


def fetch(tensors: Sequence[Tensor]) -> list[list[float]]:
    """The entries of each tensor as numbers; those of one device come in one transfer.

    Examples:
        >>> fetch([torch.tensor(2.0), torch.tensor([1.0, 3.0])])
        [[2.0], [1.0, 3.0]]
    """
    return [[float(v) for v in t.reshape(-1).tolist()] for t in to_host(tensors)]


def to_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Each tensor on the CPU, itself where it is there; those of one device come in one transfer.

    Their bytes are put together, so that dtypes stay as they are; the wider ones come first, which keeps
    each of them aligned.

    Examples:
        >>> to_host([torch.tensor([1.0, 2.0]), torch.tensor(3)])
        [tensor([1., 2.]), tensor(3)]
    """
    result = list(tensors)
    there: dict[torch.device, list[int]] = {}
    for i, tensor in enumerate(tensors):
        if tensor.device.type != "cpu":
            there.setdefault(tensor.device, []).append(i)
    for places in there.values():
        places.sort(key=lambda i: -tensors[i].element_size())
        part: list[int] = []
        size = 0
        for i in places:
            if part and size + tensors[i].nbytes > _MOST_BYTES:
                _transfer(result, part)
                part, size = [], 0
            part.append(i)
            size += tensors[i].nbytes
        _transfer(result, part)
    return result


def _transfer(tensors: list[Tensor], places: list[int]) -> None:
    """Replace these tensors of one device by copies on the CPU."""
    given = [tensors[i].detach() for i in places]
    if len(given) == 1:
        tensors[places[0]] = given[0].cpu()
        return
    parts = [t.reshape(-1).view(torch.uint8) for t in given]
    ends = torch.cat(parts).cpu().split([len(part) for part in parts])
    for i, tensor, end in zip(places, given, ends, strict=True):
        tensors[i] = end.view(tensor.dtype).view(tensor.shape)


def small_to_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by name, the small ones of a device on the CPU: a few of their numbers cost less there."""
    small = [name for name, tensor in tensors.items() if tensor.numel() <= SMALL]
    fetched = to_host([tensors[name] for name in small])
    return dict(tensors) | dict(zip(small, fetched, strict=True))


class Readings:
    """What is read of a device after a pass and not within it, all in one transfer.

    What is made of tensors that are on the CPU is made at once.
    """

    def __init__(self) -> None:
        self.waiting: list[tuple[Sequence[Tensor], Callable[..., None]]] = []

    def add(self, then: Callable[..., None], *tensors: Tensor) -> None:
        """Call `then` with the tensors on the CPU, once they are read; they must not change until then."""
        if all(tensor.device.type == "cpu" for tensor in tensors):
            then(*tensors)
        else:
            self.waiting.append((tensors, then))

    def flush(self) -> None:
        """Read what waits, in the order in which it came."""
        waiting, self.waiting = self.waiting, []
        fetched = iter(to_host([tensor for tensors, _ in waiting for tensor in tensors]))
        for tensors, then in waiting:
            then(*(next(fetched) for _ in tensors))
