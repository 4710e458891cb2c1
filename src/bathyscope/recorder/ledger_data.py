"""What goes into the models over time: loaders, samples that come again, classes, scales."""

import math
import random
import weakref
from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, WeightedRandomSampler

from bathyscope.core.fetch import to_host
from bathyscope.core.hooks import on_gradient
from bathyscope.core.loop_record import LoaderUse, LoopRecord
from bathyscope.core.nested import tensors_in
from bathyscope.measure.inputs_and_labels import relation_score
from bathyscope.recorder.sketch import (
    can_be_read,
    entries,
    hashes_of,
    root_mean_square,
    sample_hashes,
    sample_rows,
)

_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
_MOST_DISTINCT = 20_000
_MOST_LOADERS = 64
# Batches of which all samples are hashed; later ones are when a step is looked at.
_DENSE_BATCHES = 24
_MOST_LABEL_BATCHES = 200
# Batches of a loader that are recognized as the input of a model.
_FED_BATCHES = 16
_MOST_CLASSES = 4096
_FEWEST_VECTORS, _MOST_VECTORS = 8, 64
"""Samples, and entries of each, of an output whose samples are compared."""
_MOST_ORDERS = 8
_MOST_RELATED = 512
"""Samples of which inputs and classes are compared."""


class DataLedger:
    """Keeps the records of loaders and inputs."""

    def __init__(self, record: LoopRecord) -> None:
        self.record = record
        self._loaders: dict[int, tuple[weakref.ref[Any], LoaderUse]] = {}
        self._iterators: dict[int, tuple[weakref.ref[Any], LoaderUse]] = {}
        self._seen: set[int] = set()
        self._last_batch: int | None = None
        self._scales: list[float] = []
        self._shape: tuple[int, ...] = ()
        self._vectors: list[Tensor] = []  # outputs of the first pass and of the last one looked at
        self._handed_out: dict[int, LoaderUse] = {}
        self._rows: Tensor | None = None  # a few entries of each sample of the last pass
        self._related: list[Tensor] = []
        self._labels: list[Tensor] = []

    def loader_made(self, loader: "DataLoader[Any]", line: str | None) -> None:
        """A loader was constructed."""
        if len(self.record.loaders) >= _MOST_LOADERS:
            return
        sampler = getattr(loader, "sampler", None)
        weights = getattr(sampler, "weights", None) if _is_weighted(sampler) else None
        use = LoaderUse(
            index=len(self.record.loaders),
            created_at=line,
            iterated_at=None,
            num_samples=_samples(loader, sampler),
            batch_size=loader.batch_size,
            sampler=type(sampler).__name__,
            is_shuffled=isinstance(sampler, RandomSampler | WeightedRandomSampler)
            or not isinstance(sampler, SequentialSampler),
            workers=loader.num_workers,
            num_weights=None if weights is None else len(weights),
            own_generator=_generator_of(loader) if loader.num_workers > 1 else None,
        )
        self.record.loaders.append(use)
        self._loaders[id(loader)] = (weakref.ref(loader), use)

    def iterated(self, loader: "DataLoader[Any]", iterator: object, line: str | None) -> None:
        """A pass over a loader begins."""
        result = self._loaders.get(id(loader))
        if result is None or result[0]() is not loader:
            self.loader_made(loader, None)
            result = self._loaders.get(id(loader))
        if result is not None:
            result[1].iterations += 1
            result[1].iterated_at = line
            self._iterators = {k: v for k, v in self._iterators.items() if v[0]() is not None}
            self._iterators[id(iterator)] = (weakref.ref(iterator), result[1])

    def loaded(self, iterator: object, batch: object) -> None:
        """A batch was handed out."""
        result = self._iterators.get(id(iterator))
        if result is None:
            return
        use = result[1]
        use.batches += 1
        tensors = list(tensors_in(batch))
        if use.batches == 1:
            use.holds = _contents(tensors)
        if len(use.orders) < min(use.iterations, _MOST_ORDERS) and tensors:
            use.orders.append(hash(tuple(sample_hashes(tensors[0]))) if tensors[0].ndim else 0)
        if use.batches <= _FED_BATCHES:
            self._handed_out.update({_key(t): use for t in tensors})

    def seen(self, inputs: tuple[object, ...], *, is_looked_at: bool) -> None:
        """A trained model is called with gradients on some inputs."""
        data = self.record.data
        x: Tensor | None
        if inputs and type(inputs[0]) is Tensor and inputs[0].ndim:
            x = inputs[0]
        else:
            x = next((t for t in tensors_in(inputs) if t.ndim), None)
        if x is None or not can_be_read(x) or not x.numel():
            return
        data.batches += 1
        data.batch_size = max(data.batch_size, x.shape[0])
        if self._handed_out:
            for tensor in tensors_in(inputs):
                use = self._handed_out.get(_key(tensor))
                if use is not None:
                    use.fed_model += 1
            self._handed_out.clear()
        if not (is_looked_at or (data.batches <= _DENSE_BATCHES and x.device.type == "cpu")):
            self._last_batch = None
            return
        some, rows = to_host([entries(x), sample_rows(x)])  # of a device in one transfer
        if x.is_floating_point():
            self._take_scale(root_mean_square(some.float().numpy()))
            self._shape = tuple(x.shape[1:])
        if not x.requires_grad:  # what another network made is not data
            self._count(hashes_of(rows))
        self._rows = rows.float() if x.is_floating_point() else None

    def _count(self, hashes: list[int]) -> None:
        data = self.record.data
        batch = hash(tuple(hashes))
        data.repeated_batches += batch == self._last_batch
        self._last_batch = batch
        if data.is_bounded:
            return
        self._seen.update(hashes)
        data.draws += len(hashes)
        data.distinct = len(self._seen)
        data.is_bounded = data.distinct >= _MOST_DISTINCT

    def evaluated(self, inputs: tuple[object, ...]) -> None:
        """A trained model is called in eval mode without gradients."""
        data = self.record.data
        x = next((t for t in tensors_in(inputs) if t.ndim), None)
        if x is None or not can_be_read(x) or not (x.is_floating_point() and x.is_cpu):
            return
        if data.first_scale is None or tuple(x.shape[1:]) != self._shape:
            return
        size = root_mean_square(entries(x).float().numpy())
        if math.isfinite(size):
            data.size = data.first_scale
            data.evaluated_size = max(data.evaluated_size or 0.0, size)
            data.evaluated += 1

    def _take_scale(self, scale: float) -> None:
        """Mean scale of the first eight batches, and of the last eight."""
        data = self.record.data
        if not math.isfinite(scale):
            data.non_finite += 1
            return
        self._scales = [*self._scales[-7:], scale]
        mean = sum(self._scales) / len(self._scales)
        if data.first_scale is None or data.batches <= 8:
            data.first_scale = mean
        data.last_scale = mean

    def watch_output(self, output: object, *, is_looked_at: bool) -> None:
        """Read the gradient at the output of a trained model, where the loss says what it wants."""
        data = self.record.data
        if not (is_looked_at or data.batches <= _DENSE_BATCHES):
            return
        # a model that computes its own loss returns it beside its logits
        tensor = next((t for t in tensors_in(output) if t.ndim), None)
        if tensor is None or not tensor.requires_grad or not can_be_read(tensor):
            return
        if (
            tensor.ndim == 2
            and len(tensor) == data.batch_size
            and 1 <= tensor.shape[1] <= _MOST_CLASSES
        ):
            on_gradient(tensor, self._read_labels)
        if is_looked_at and tensor.ndim == 2 and min(tensor.shape) >= _FEWEST_VECTORS:
            rows = tensor.detach()[:_MOST_VECTORS, :_MOST_VECTORS].clone()
            self._vectors = [*self._vectors[:1], rows]
        if tensor.dtype == torch.float16 and data.half_zero is None:
            on_gradient(tensor, self._read_half)

    def _read_labels(self, gradient: Tensor) -> None:
        """The class that each row of a gradient at logits asks for: its only negative entry."""
        data = self.record.data
        if data.label_batches >= _MOST_LABEL_BATCHES:
            return
        gradient = gradient.detach()
        if gradient.shape[1] == 1:
            # the critic of a GAN sees true and generated samples in batches of their own
            if sum(m.is_trained and m.wrapper is None for m in self.record.models) > 1:
                return
            if float(gradient.amax() - gradient.amin()) <= 1e-5 * float(gradient.abs().amax()):
                return  # one pull for all, as on the mean of a critic
            labels = (gradient[:, 0] < 0).long()
        else:
            negative = gradient < 0
            size = gradient.abs().sum(1)
            # of logits p − y, which sums to 0; of log-probabilities −y alone
            is_classes = (negative.sum(1) <= 1) & (
                (gradient.sum(1).abs() <= 1e-2 * size) | (gradient.amax(1) <= 0)
            )
            read = to_host([is_classes, gradient.argmin(1), negative.any(1)])
            if not bool(read[0].all()):
                return  # no loss of one class of many
            labels = read[1][read[2]]
        counts = Counter(labels.tolist())
        if not counts:
            return
        data.label_batches += 1
        data.label_counts.update(counts)
        data.label_batch_counts.append((len(counts), int(labels.numel())))
        rows, self._rows = self._rows, None
        is_whole = rows is not None and labels.numel() == len(gradient) >= len(rows)
        if rows is not None and is_whole and sum(map(len, self._labels)) < _MOST_RELATED:
            self._related.append(rows.clone())
            self._labels.append(labels[: len(rows)].clone())

    def finish(self) -> None:
        """Have outputs become alike, and are the classes that were asked for related to the inputs?"""
        if self._vectors:
            alike = [_likeness(rows.cpu().double()) for rows in self._vectors]
            self.record.data.first_alike, self.record.data.last_alike = alike[0], alike[-1]
            self._vectors = []
        if not self._labels or len({rows.shape[1] for rows in self._related}) > 1:
            return
        data, labels, rows = self.record.data, torch.cat(self._labels), torch.cat(self._related)
        # a sample that was drawn twice is like itself, whatever its label
        first = {row.tobytes(): index for index, row in enumerate(rows.cpu().numpy())}
        chosen = torch.tensor(sorted(first.values()), device=rows.device)
        data.relation = relation_score(rows[chosen], labels.to(rows.device)[chosen])
        data.related_samples = len(chosen)
        self._related, self._labels = [], []

    def _read_half(self, gradient: Tensor) -> None:
        """How much of a half-precision gradient is zero, or nearly so."""
        values = entries(gradient).float().abs()
        other = values[values > 0]
        smallest = float(torch.finfo(torch.float16).smallest_normal)
        data = self.record.data
        data.half_zero = float((values == 0).float().mean())
        data.half_subnormal = float((other < smallest).float().mean()) if len(other) else 1.0


def _likeness(rows: Tensor) -> float:
    """Mean cosine similarity between different rows."""
    total = torch.nn.functional.normalize(rows, dim=1).sum(0).square().sum()
    return (float(total) - len(rows)) / (len(rows) * (len(rows) - 1))


def _generator_of(loader: "DataLoader[Any]") -> str | None:
    """A random generator that the data set, or what it transforms with, holds; None with a worker_init_fn."""
    if loader.worker_init_fn is not None:
        return None
    waiting: list[tuple[str, object]] = [("dataset", loader.dataset)]
    for _ in range(2):  # its own attributes, and those of what it holds
        inside = []
        for path, value in waiting:
            members = vars(value).items() if hasattr(value, "__dict__") else ()
            for name, member in members:
                if isinstance(member, _GENERATORS):
                    return f"{path}.{name}"
                inside.append((f"{path}.{name}", member))
        waiting = inside[:64]
    return None


def _is_weighted(sampler: object) -> bool:
    return isinstance(sampler, WeightedRandomSampler)


def _samples(loader: "DataLoader[Any]", sampler: object) -> int | None:
    """How many there are to draw from: those of the sampler, where it takes a part alone."""
    lengths = [_length(loader.dataset), None if _is_weighted(sampler) else _length(sampler)]
    known = [n for n in lengths if n is not None]
    return min(known) if known else None


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def _contents(tensors: list[Tensor]) -> str:
    """`labels` for whole numbers of one dimension alone, `inputs` where there are none."""
    is_label = [t.ndim <= 1 and not t.is_floating_point() for t in tensors]
    if all(is_label):
        return "labels"
    return "pairs" if any(is_label) else "inputs"


def _key(tensor: Tensor) -> int:
    """A name for the memory of a tensor: the same for a view of the whole."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return id(tensor)
