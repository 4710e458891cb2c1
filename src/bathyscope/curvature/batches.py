"""A batch or a loader of batches, walked the same way each time, with the size of every batch."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, check_batch, read_all
from bathyscope.core.call_forms import is_batch
from bathyscope.core.devices import available_bytes
from bathyscope.core.errors import UsageError
from bathyscope.core.global_state import RngState
from bathyscope.core.nested import tensors_in

# Fraction of the free memory that the batches of a loader may take before they are read again each time.
_KEPT_FRACTION = 0.25


class Batches:
    """The batches of a user's data, checked; re-reading gives the same ones in the same order.

    A loader's batches are kept when they fit into a quarter of the free memory. Otherwise the
    loader is read again for every pass, from the same random state, so that a shuffling loader
    gives the same batches each time. After a pass random numbers continue as if nothing had been read.

    Args:
        data: one batch (inputs, targets), or any iterable of batches.
        model: where the tensors belong; batches of a loader are brought to its device.

    Examples:
        >>> model = nn.Linear(3, 1)
        >>> ragged = [(torch.ones(4, 3), torch.ones(4)), (torch.ones(2, 3), torch.ones(2))]
        >>> [size for _, size in Batches(ragged, model)]
        [4, 2]
    """

    def __init__(self, data: object, model: nn.Module) -> None:
        self.model = model
        self._kept: list[Batch] | None = None
        self._loader: Iterable[object] = ()
        self._state = _RandomState.of(data)
        self.num_batches = 1
        self.num_samples = 0
        if is_batch(data):
            self._kept = [check_batch(model, data)]
            self.num_samples = _size(self._kept[0])
        else:
            self._read(data)

    def __iter__(self) -> Generator[tuple[Batch, int], None, None]:
        if self._kept is not None:
            yield from ((batch, _size(batch)) for batch in self._kept)
            return
        with closing(self._stream()) as batches:
            yield from ((batch, _size(batch)) for batch in batches)

    @property
    def held(self) -> Sequence[Batch]:
        """The batches that are kept; none where the loader is read again for every pass."""
        return self._kept or ()

    @property
    def example(self) -> object:
        """The inputs of the first batch."""
        with closing(iter(self)) as batches:
            return next(batches)[0][0]

    def _read(self, loader: object) -> None:
        if not isinstance(loader, Iterable) or isinstance(loader, (Tensor, str, bytes)):
            raise UsageError(
                f"Data is a batch (inputs, targets) or an iterable of batches, but a "
                f"{type(loader).__name__} was given."
            )
        self._loader = loader
        device = _device(self.model)
        budget = _KEPT_FRACTION * available_bytes(torch.device("cpu") if device is None else device)
        read_once = isinstance(loader, Iterator)
        kept: list[Batch] | None = []
        self.num_batches = taken = 0
        for batch in self._stream():
            self.num_batches += 1
            self.num_samples += _size(batch)
            taken += sum(t.nbytes for t in tensors_in(batch))
            if kept is not None:
                kept.append(batch)
                if taken > budget and not read_once:
                    kept = None
        if not self.num_batches:
            raise UsageError("The loader gave no batch; pass one that is not empty.")
        self._kept = kept

    def _stream(self) -> Generator[Batch, None, None]:
        before = _RandomState.of(self._loader)
        self._state.restore()
        device = _device(self.model)
        try:
            for batch in read_all(self._loader):
                yield check_batch(self.model, batch if device is None else _move(batch, device))
        finally:
            before.restore()


@dataclass(frozen=True, slots=True)
class _RandomState:
    """Everything a loader may draw from: the global random numbers and generators of its own."""

    everyone: RngState
    own: Sequence[tuple[torch.Generator, Tensor]]

    @classmethod
    def of(cls, loader: object) -> "_RandomState":
        owners = (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
        result = {getattr(owner, "generator", None) for owner in owners}
        own = [(g, g.get_state()) for g in result if isinstance(g, torch.Generator)]
        return cls(RngState.now(), own)

    def restore(self) -> None:
        self.everyone.restore()
        for generator, state in self.own:
            generator.set_state(state)


def _size(batch: Batch) -> int:
    inputs, targets = batch
    for tensor in (*tensors_in(targets), *tensors_in(inputs)):
        if tensor.ndim:
            return len(tensor)
    raise UsageError("The batch holds no tensor with a first dimension; samples cannot be counted.")


def _device(model: nn.Module) -> torch.device | None:
    parameter = next(model.parameters(), None)
    return None if parameter is None else parameter.device


def _move(value: object, device: torch.device) -> object:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _move(item, device) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(_move(item, device) for item in value)
    return value
