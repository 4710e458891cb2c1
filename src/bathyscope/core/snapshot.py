"""What plain objects hold, put back in place: tensors, arrays, containers and random generators."""

import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Restore = Callable[[], None]

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
_DICTS = (dict, OrderedDict, defaultdict, Counter)
MUTABLE = frozenset({Tensor, np.ndarray, list, tuple, set, deque, bytearray, *_DICTS, *GENERATORS})
"""Types that are looked into; of a class of the user's own nothing is known."""


def snapshot(value: object, seen: set[int]) -> Restore | None:
    """A function that gives an object its present contents back; None where it holds nothing.

    Objects keep their identity, and nothing is written where nothing has changed.

    Args:
        value: anything.
        seen: ids of what was looked into before, for objects that hold one another.

    Examples:
        >>> counts = {"steps": [1, 2]}
        >>> restore = snapshot(counts, set())
        >>> counts["steps"].append(3); counts["more"] = 1
        >>> restore(); counts
        {'steps': [1, 2]}
    """
    kind = type(value)
    if kind not in MUTABLE or id(value) in seen:
        return None
    if kind is tuple and not any(type(entry) in MUTABLE for entry in value):  # type: ignore[attr-defined]
        return None
    seen.add(id(value))
    if isinstance(value, Tensor):
        return TensorState(value).restore
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if isinstance(value, GENERATORS):
        return _of_generator(value)
    return _of_container(value, seen)


def _of_container(value: Any, seen: set[int]) -> Restore | None:
    if isinstance(value, dict):
        return _both(_of_dict(value), value.values(), seen)
    if isinstance(value, tuple):
        return _both(None, value, seen)
    items = list(value)

    def restore() -> None:
        if len(value) == len(items) and all(map(is_, value, items)):
            return
        value.clear()
        (value.update if isinstance(value, set) else value.extend)(items)

    return _both(restore, () if isinstance(value, (set, bytearray)) else items, seen)


def _both(own: Restore | None, values: Iterable[object], seen: set[int]) -> Restore | None:
    """Restore a container and what it holds."""
    inner = [result for value in values if (result := snapshot(value, seen)) is not None]
    if not inner:
        return own

    def restore() -> None:
        if own is not None:
            own()
        for one in inner:
            one()

    return restore


def _of_dict(value: dict[Any, Any]) -> Restore:
    items = dict(value)

    def restore() -> None:
        if list(value) != list(items) or not all(map(is_, value.values(), items.values())):
            value.clear()
            value.update(items)

    return restore


def _of_array(value: np.ndarray[Any, np.dtype[Any]]) -> Restore:
    items = value.copy()

    def restore() -> None:
        if value.shape == items.shape and value.tobytes() != items.tobytes():
            value[...] = items

    return restore


def _of_generator(value: Any) -> Restore:
    if isinstance(value, np.random.Generator):
        numbers = value.bit_generator.state
        return partial(setattr, value.bit_generator, "state", numbers)
    if isinstance(value, random.Random):
        return partial(value.setstate, value.getstate())
    return partial(value.set_state, value.get_state())


class TensorState:
    """The values of a tensor, its shape and its storage, which a pass may have let grow."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.values = tensor.detach().clone()
        self.data = tensor.data
        self.version = version_of(tensor)
        self.num_bytes = tensor.untyped_storage().nbytes() if _has_storage(tensor) else 0

    def restore(self) -> None:
        """Give the tensor back what it was; only what differs is written."""
        tensor, data = self.tensor, self.data
        if _has_storage(tensor) and _has_storage(data):
            storage = data.untyped_storage()
            if storage.nbytes() != self.num_bytes and storage.resizable():
                storage.resize_(self.num_bytes)
            same = tensor.data_ptr() == data.data_ptr() and tensor.shape == data.shape
            if not same or tensor.stride() != data.stride():
                tensor.data = data
        write_back(tensor, self.values, version=self.version)


class ManyTensors:
    """The values of many small tensors of one dtype in the host's memory, kept and compared as one.

    Of the statistics of a hundred norms the calls cost more than the numbers. Those of a device are
    written by `write_together`, for which the host need not wait.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        # of the same storage as the tensors: no views are made when they are compared
        self.bits = [_bits(t, t)[0].view(-1) for t in tensors]
        self.values = torch.cat(self.bits)
        self.addresses = [(t.data_ptr(), t.untyped_storage().nbytes()) for t in tensors]
        self.data = [t.data for t in tensors]
        self.ends = torch.tensor([len(b) for b in self.bits], device="cpu").cumsum(0)

    @staticmethod
    def takes(tensor: Tensor) -> bool:
        """Whether a tensor is of the plain and small kind."""
        return (
            type(tensor) in (Tensor, nn.Parameter)
            and tensor.device.type == "cpu"
            and _has_storage(tensor)
            and not tensor.is_complex()
            and not tensor.is_quantized
            and not tensor.is_inference()
            and tensor.is_contiguous()
            and 0 < tensor.numel() <= _SMALL
        )

    @cached_property
    def parts(self) -> list[Tensor]:
        """What each tensor held, in its own dtype and shape."""
        ends = self.values.split([len(bits) for bits in self.bits])
        return [e.view(d.dtype).view(d.shape) for e, d in zip(ends, self.data, strict=True)]

    def restore(self) -> None:
        """Give them back what they were; only what differs is written."""
        for tensor, data, (address, num_bytes) in zip(
            self.tensors, self.data, self.addresses, strict=True
        ):
            storage = data.untyped_storage()
            if storage.nbytes() != num_bytes and storage.resizable():
                storage.resize_(num_bytes)
            if (
                tensor.data_ptr() != address
                or tensor.shape != data.shape
                or tensor.stride() != data.stride()
            ):
                tensor.data = data
        now = torch.cat(self.bits)
        if torch.equal(now, self.values):
            return
        counts = (now != self.values).cumsum(0)[self.ends - 1].tolist()
        before = [0, *counts]
        changed = [i for i, count in enumerate(counts) if count != before[i]]
        if changed:
            with torch.no_grad():
                torch._foreach_copy_(
                    [self.tensors[i] for i in changed], [self.parts[i] for i in changed]
                )


_SMALL = 2**14
"""Entries of a tensor that is compared together with others."""


def snapshot_tensors(tensors: Iterable[Tensor]) -> list[Restore]:
    """Functions that give tensors their present values back.

    Examples:
        >>> ones = [torch.ones(2), torch.ones(3)]
        >>> (restore,) = snapshot_tensors(ones)
        >>> _ = ones[1].zero_()
        >>> restore(); ones[1]
        tensor([1., 1., 1.])
    """
    alike: dict[torch.dtype, list[Tensor]] = {}
    restores: list[Restore] = []
    for tensor in {id(t): t for t in tensors}.values():
        if ManyTensors.takes(tensor):
            alike.setdefault(tensor.dtype, []).append(tensor)
        else:
            restores.append(TensorState(tensor).restore)
    return restores + [ManyTensors(some).restore for some in alike.values()]


def _has_storage(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_meta


_put_off: list[dict[torch.device, list[tuple[Tensor, Tensor]]]] = []


@contextmanager
def write_together() -> Iterator[None]:
    """Within, tensors of a device get their former values at the end, all at once.

    To see whether they differ would make the host wait.
    """
    pairs: dict[torch.device, list[tuple[Tensor, Tensor]]] = {}
    _put_off.append(pairs)
    try:
        yield
    finally:
        _put_off.remove(pairs)
        with torch.no_grad():
            for some in pairs.values():
                torch._foreach_copy_([pair[0] for pair in some], [pair[1] for pair in some])


def version_of(tensor: Tensor) -> int | None:
    """How often a tensor was written to, as autograd counts it; None where it does not."""
    return None if tensor.is_inference() else tensor._version


def write_back(tensor: Tensor, values: Tensor, *, version: int | None = None) -> None:
    """Give a tensor its former values where a pass has changed them; only those of it are written,
    so that a graph that was made meanwhile still finds what it saved.

    A tensor of a device whose version is that of before may have been changed behind autograd's back, and is
    written in the same way, which no graph takes for a change.
    """
    if tensor.is_meta:
        return
    is_far = tensor.device.type != "cpu" and version is not None and not tensor.is_inference()
    if _put_off and is_far and _are_alike(tensor, values):
        written = tensor.data if tensor._version == version else tensor
        _put_off[-1].setdefault(tensor.device, []).append((written, values))
        return
    if tensor.layout is torch.strided and have_same_bits(tensor, values):
        return
    _write(tensor, values)


def _are_alike(first: Tensor, second: Tensor) -> bool:
    """Whether two plain tensors can be compared entry by entry."""
    is_plain = first.layout is torch.strided and not hasattr(first, "to_local")
    return is_plain and first.dtype == second.dtype and first.shape == second.shape


def _write(tensor: Tensor, values: Tensor) -> None:
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        tensor.copy_(values)


def have_same_bits(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits: −0 is not 0, NaN is NaN.

    Examples:
        >>> zero, nan = torch.zeros(2), torch.full((2,), torch.nan)
        >>> have_same_bits(zero, -zero), have_same_bits(nan, nan.clone())
        (False, True)
    """
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return torch.equal(*_bits(first, second))


def _bits(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Two tensors of one dtype as whole numbers with the same bits."""
    if first.is_complex():
        first, second = (torch.view_as_real(x.detach().resolve_conj()) for x in (first, second))
    if first.is_floating_point():
        bits = _BITS[first.element_size()]
        first, second = first.detach().view(bits), second.detach().view(bits)
    return first, second
