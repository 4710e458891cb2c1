"""Numbers from a device to the host, many at once: each transfer alone makes the host wait."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor

from bathyscope.core.nested import map_tensors, tensors_in

T = TypeVar("T")

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


def to_host(tensors: Sequence[Tensor], *, at_once: int = _MOST_BYTES) -> list[Tensor]:
    """Each tensor on the CPU, itself where it is there; those of one device come in one transfer.

    Their bytes are put together, so that dtypes stay as they are; the wider ones come first, which keeps
    each of them aligned. Where there are more bytes than `at_once` it takes several transfers.

    Examples:
        >>> to_host([torch.tensor([1.0, 2.0]), torch.tensor(3)])
        [tensor([1., 2.]), tensor(3)]
    """
    result = [near(tensor) for tensor in tensors]
    there: dict[torch.device, list[int]] = {}
    for i, tensor in enumerate(result):
        if tensor.device.type != "cpu":
            there.setdefault(tensor.device, []).append(i)
    for places in there.values():
        places.sort(key=lambda i: -tensors[i].element_size())
        part: list[int] = []
        size = 0
        for i in places:
            if part and size + tensors[i].nbytes > at_once:
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
    parts = [t.reshape(-1).contiguous().view(torch.uint8) for t in given]
    ends = torch.cat(parts).cpu().split([len(part) for part in parts])
    for i, tensor, end in zip(places, given, ends, strict=True):
        tensors[i] = end.view(tensor.dtype).view(tensor.shape)


_kept: ContextVar[dict[tuple[object, ...], tuple[Tensor, Tensor]] | None]
_kept = ContextVar("kept_on_host", default=None)


@contextmanager
def host_copies() -> Iterator[None]:
    """Within, what `keep_on_host` has fetched is not fetched again for as long as nobody writes to it."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def keep_batch_on_host(batch: object) -> None:
    """Fetch what a batch holds, where it is not large, in one transfer, and keep the copies."""
    inside = list(tensors_in(batch))
    if sum(tensor.numel() for tensor in inside) <= _MOST_OF_BATCH:
        keep_on_host(inside, most=_MOST_OF_BATCH)


def keep_on_host(tensors: Iterable[Tensor], *, most: int | None = None) -> None:
    """Fetch the small ones of some tensors in one transfer, and keep the copies.

    Outside of `host_copies` this does nothing.
    """
    kept = _kept.get()
    if kept is None:
        return
    limit = SMALL if most is None else most
    far = [
        t.detach() for t in tensors if _is_far(t) and t.numel() <= limit and not t.is_inference()
    ]
    for tensor, copy in zip(far, to_host(far), strict=True):
        kept[_state_of(tensor)] = tensor, copy  # held, so that its memory stays its own


def near(tensor: Tensor) -> Tensor:
    """The copy of a tensor that is kept on the host, or the tensor itself where there is none."""
    kept = _kept.get()
    if not kept or tensor.is_inference() or not _is_far(tensor):
        return tensor
    return kept.get(_state_of(tensor), (tensor, tensor))[1]


def _state_of(tensor: Tensor) -> tuple[object, ...]:
    """What two tensors with the same entries of the same memory share, as long as nobody writes to it."""
    layout = tensor.shape, tensor.stride(), tensor.dtype, tensor.device
    return tensor.data_ptr(), tensor._version, *layout


def small_to_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by name, the small ones of a device on the CPU: a few of their numbers cost less there."""
    small = [name for name, tensor in tensors.items() if tensor.numel() <= SMALL]
    fetched = to_host([tensors[name] for name in small])
    return dict(tensors) | dict(zip(small, fetched, strict=True))


def in_parts(items: Sequence[T], sizes: Sequence[int], *, most: int = SMALL) -> list[list[T]]:
    """Neighbors together as long as their sizes add up to no more: what is joined stays in a cache.

    Examples:
        >>> in_parts("abcd", [1, 1, 1, 5], most=2)
        [['a', 'b'], ['c'], ['d']]
    """
    result: list[list[T]] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if not result or total + size > most:
            result.append([])
            total = 0
        result[-1].append(item)
        total += size
    return result


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


_MOST_ENTRIES = 1 << 18
"""Of a tensor that is copied: a megabyte in float32."""
_MOST_OF_BATCH = 1 << 24
"""Entries of a batch that is copied: it came from the host, in less than its pass takes."""


class OnHost:
    """Copies on the CPU of what lies on a device; of what is large, or of half precision, the thing itself.

    Some of torch's functions know half precision on devices alone.
    """

    def __init__(self) -> None:
        self.copies: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, value: object) -> object:
        """The same nested tensors, those that can be on the CPU; they come in one transfer."""
        wanted = [t for t in tensors_in(value) if id(t) not in self.copies and _can_be_copied(t)]
        for tensor, copy in zip(wanted, to_host(wanted), strict=True):
            self.copies[id(tensor)] = tensor, copy  # held, so that its id stays its own
        if not self.copies or not _is_plain(value):
            return value
        return map_tensors(value, lambda t: self.copies.get(id(t), (t, t))[1])

    def tensor(self, tensor: Tensor) -> Tensor:
        """The copy of one tensor."""
        self.of(tensor)
        return self.copies.get(id(tensor), (tensor, tensor))[1]

    def can_hold(self, *values: object) -> bool:
        """Whether all tensors in these lie on devices, and can be copied."""
        inside = [tensor for value in values for tensor in tensors_in(value)]
        return bool(inside) and all(map(_can_be_copied, inside)) and all(map(_is_plain, values))

    def batch(self, inputs: object, targets: object) -> tuple[object, object]:
        """Inputs and targets in one transfer, of any dtype: both, so that they can be compared, or none."""
        inside = list(tensors_in((inputs, targets)))
        is_small = sum(tensor.numel() for tensor in inside) <= _MOST_OF_BATCH
        if not is_small or not all(map(_is_far, inside)) or not _is_plain((inputs, targets)):
            return inputs, targets
        for tensor, copy in zip(inside, to_host(inside), strict=True):
            self.copies.setdefault(id(tensor), (tensor, copy))
        return self.of(inputs), self.of(targets)


def _can_be_copied(tensor: Tensor) -> bool:
    is_half = tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64)
    return _is_far(tensor) and not is_half and tensor.numel() <= _MOST_ENTRIES


def _is_far(tensor: Tensor) -> bool:
    """Whether it is a plain tensor of a device."""
    is_plain = tensor.layout is torch.strided and not hasattr(tensor, "to_local")
    return is_plain and tensor.device.type not in ("cpu", "meta")


def _is_plain(value: object) -> bool:
    """Whether a copy of the containers is as good as they are: classes of a model's own may do more."""
    if isinstance(value, Mapping):
        return type(value) is dict and all(_is_plain(item) for item in value.values())
    if isinstance(value, (tuple, list)):
        return type(value) in (tuple, list) and all(_is_plain(item) for item in value)
    return value is None or isinstance(value, Tensor)
