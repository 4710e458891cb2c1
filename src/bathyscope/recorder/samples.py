"""The full signals of a step, block by block: reduced on the spot, kept in few bytes, and judged."""

import math
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.blocks import Blocks
from bathyscope.core.processes import Processes
from bathyscope.core.records import Block
from bathyscope.linalg import conditioning_of
from bathyscope.measure.attention_calls import AttentionCall
from bathyscope.measure.attention_scores import head_entropy
from bathyscope.recorder.event import Event, EventKind

Row = dict[str, float | int | str | bool | None]
Values = np.ndarray[tuple[int, int], np.dtype[np.floating]]
Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

COLUMNS = (
    *("mean", "std", "dead", "variety", "entropy", "gradient_in", "gradient_out", "condition"),
    "rank",
)
"""`dead`: share of units with one value for all samples; `variety`: share of the output's energy in
which samples differ from their mean; `entropy`: of attention, mean over heads, from 0 (each query
looks at one key) to 1 (at all alike)."""

# Below this share a difference of squares in float32 has lost too many digits.
_CANCELLATION = 1e-2
_SAMPLES = 16  # compared with one another: enough to see a collapse

# Times the median of the samples before: layers drift by factors, not by two decades.
_RUN_AWAY = 100.0
# Share of units that are dead now, and at most before: a block that was mostly dead all along is none.
_DEAD, _ALIVE = 0.9, 0.5
# Share of energy between samples now, and at least before.
_ALIKE, _VARIED = 1e-4, 1e-2
# Entropy of attention now, and at least in the last samples before: heads that learn to look at one
# place do so over many samples.
_SHARP, _SPREAD_OUT, _LAST_SAMPLES = 0.1, 0.4, 4


class SampleTap:
    """Receives the tensors of one pass and keeps one number for each block and column.

    In a group of processes each sees its own samples; the numbers are those of all samples together.
    Norms of gradients are exchanged when the pass is over (`put_gradients`).
    """

    def __init__(
        self,
        blocks: Blocks,
        *,
        conditioning: bool,
        group: Processes | None = None,
        is_double: bool = False,
    ) -> None:
        self.dtype = torch.float64 if is_double else torch.float32
        kept = np.float64 if is_double else np.float32
        self.values: Values = np.full((len(blocks), len(COLUMNS)), np.nan, dtype=kept)
        self.conditioning = conditioning
        self.group = group
        self.num_attention_calls = 0
        self._inside: Block | None = None
        self._last: tuple[Tensor, float] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no block was reached."""
        return bool(np.isnan(self.values[:, :2]).all())

    def on_input(self, block: Block, x: Tensor) -> None:
        """A block begins, and with it its attention: the input is the output of the block before."""
        self._inside = block

    def on_attention(self, call: AttentionCall) -> None:
        """Entropy of the attention in the block at hand; of several calls the least."""
        self.num_attention_calls += 1
        if self._inside is not None:
            entropy = float(head_entropy(call).nanmean())
            before = self.values[self._inside.index, COLUMNS.index("entropy")]
            self._put(self._inside, "entropy", float(np.fmin(entropy, before)))

    def on_output(self, block: Block, x: Tensor) -> None:
        """Moments of the output, its dead units, its variety, and its conditioning where asked."""
        self._inside = None
        x = x.to(self.dtype)
        few = x[:_SAMPLES]
        if self.group is not None and x.ndim >= 2:
            few = self.group.gather_rows(few)[:_SAMPLES]
        if self.group is None and x.ndim >= 2 and 2 <= len(x) <= _SAMPLES:
            # what moments and variety have in common is read once
            rows = x.flatten(1)
            mean_row, energy = rows.mean(0), _energy(rows)
            mean, deviation = _moments_of(x, mean_row.mean(), energy)
            self._put(block, "variety", _variety(rows, mean_row, energy))
        else:
            mean, deviation = self._moments(x)
            if few.ndim >= 2 and len(few) >= 2:
                rows = few.flatten(1)
                self._put(block, "variety", _variety(rows, rows.mean(0), _energy(rows)))
        self._put(block, "mean", mean)
        self._put(block, "std", deviation)
        if few.ndim >= 2 and len(few) >= 2:
            self._put(block, "dead", _share_constant(few))
        if self.group is not None and self.conditioning and x.ndim >= 2:
            x = self.group.gather_rows(x)
        if self.conditioning and x.ndim >= 2:
            found = conditioning_of(x, mode=0)
            self._put(block, "condition", found.condition_number)
            self._put(block, "rank", math.nan if found.rank is None else found.rank)

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """Norm at the input."""
        self._put(block, "gradient_in", self._norm(gradient))

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        """Norm at the output."""
        self._put(block, "gradient_out", self._norm(gradient))

    def put_gradients(self, share: float) -> None:
        """Norms over the samples of all processes; `share` of them belongs to this one.

        The loss of each is the mean over its own: that of all is their mean, weighted by the shares.
        """
        if self.group is None:
            return
        columns = [COLUMNS.index("gradient_in"), COLUMNS.index("gradient_out")]
        squares = torch.from_numpy(np.square(share * self.values[:, columns], dtype=np.float64))
        missing = squares.isnan()
        total = self.group.sum(squares.masked_fill(missing, 0.0)).sqrt()
        self.values[:, columns] = np.where(missing.numpy(), np.nan, total.numpy())

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation over the samples of all processes."""
        mean, count = x.mean(), float(max(1, x.numel()))
        if self.group is None:
            return _moments_of(x, mean, _energy(x))
        own = torch.stack([mean.double() * count, mean.new_tensor(count, dtype=torch.float64)])
        total, number = self.group.sum(own)
        mean = total / number
        square = torch.linalg.vector_norm(x - mean.to(x.dtype)).double().square()
        return mean, (self.group.sum(square) / number).sqrt()

    def _norm(self, gradient: Tensor) -> float:
        # one tensor ends a block and begins the next: its gradient comes twice, one call after another
        # (the last one is kept, so that no other can lie where it lay)
        if self._last is None or not _is_same(gradient, self._last[0]):
            self._last = gradient, float(torch.linalg.vector_norm(gradient.to(self.dtype)))
        return self._last[1]

    def _put(self, block: Block, column: str, value: Tensor | float) -> None:
        self.values[block.index, COLUMNS.index(column)] = float(value)


class TakenSamples:
    """The samples taken so far; beyond a limit every other one of the older half is let go.

    Attributes:
        blocks: in the order of the rows of `values`.
        steps, values: of the samples that are kept.
    """

    def __init__(self, blocks: Blocks, *, most: int) -> None:
        self.blocks = blocks
        self.most = most
        self.steps: list[int] = []
        self.values: list[Values] = []

    def append(self, step: int, values: Values) -> None:
        """Take in one sample."""
        self.steps.append(step)
        self.values.append(values)
        if len(self.steps) > self.most:
            half = len(self.steps) // 2
            del self.steps[1:half:2]
            del self.values[1:half:2]

    @property
    def num_bytes_each(self) -> int:
        """Memory of one sample."""
        return np.dtype(np.float32).itemsize * len(self.blocks) * len(COLUMNS)

    def rows(self) -> Iterator[Row]:
        """One row for each step and block."""
        for step, values in zip(self.steps, self.values, strict=True):
            yield from sample_rows(self.blocks, step, values)

    def events(self) -> Iterator[Event]:
        """What the last sample shows that those before did not: in each kind the first block."""
        now, before = self.values[-1], self.values[:-1]
        if (lost := np.isinf(now[:, COLUMNS.index("std")])).any():
            yield self._event("not-finite", lost, std=math.inf)
            return
        if not before:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column that was never measured
            usual = np.nanmedian(np.stack(before), axis=0)
            recent = np.nanmedian(np.stack(before[-_LAST_SAMPLES:]), axis=0)
        std, dead, variety, entropy = (
            COLUMNS.index(c) for c in ("std", "dead", "variety", "entropy")
        )
        away = (now[:, std] > _RUN_AWAY * usual[:, std]) & (usual[:, std] > 0)
        died = (now[:, dead] >= _DEAD) & (usual[:, dead] <= _ALIVE)
        alike = (now[:, variety] < _ALIKE) & (usual[:, variety] > _VARIED)
        sharp = (now[:, entropy] < _SHARP) & (recent[:, entropy] > _SPREAD_OUT)
        usual[:, entropy] = recent[:, entropy]
        judged: tuple[tuple[EventKind, Flags, int], ...] = (
            ("activations-run-away", away, std),
            ("units-die", died, dead),
            ("collapse", alike & ~died, variety),
            ("entropy-falls", sharp, entropy),
        )
        for kind, found, column in judged:
            if found.any():
                first, name = int(np.argmax(found)), COLUMNS[column]
                numbers = {name: float(now[first, column])}
                numbers[f"{name}_before"] = float(usual[first, column])
                yield self._event(kind, found, **numbers)

    def _event(self, kind: EventKind, found: Flags, **numbers: float | int) -> Event:
        label = self.blocks[int(np.argmax(found))].label
        return Event(
            kind=kind,
            step=self.steps[-1],
            began=label,
            block=label,
            numbers={**numbers, "blocks": int(found.sum())},
        )


def sample_rows(blocks: Blocks, step: int, values: Values) -> Iterator[Row]:
    """The rows of one sample, with the derived columns; a block that was not reached has none."""
    for block, numbers in zip(blocks, values, strict=True):
        found = {c: float(v) for c, v in zip(COLUMNS, numbers, strict=True) if not math.isnan(v)}
        if not found:
            continue
        lost = not {"mean", "std"} <= found.keys()  # NaN, while other columns are there
        before, after = found.get("gradient_out"), found.get("gradient_in")
        yield {
            "step": step,
            "block": block.label,
            **found,
            "ratio": before / after if before is not None and after else None,
            "finite": all(map(math.isfinite, found.values())) and not lost,
        }


def _share_constant(x: Tensor) -> Tensor:
    """Share of units with one value for all samples and places.

    Units are the channels of images and sequences of channels, and the last axis of tokens and vectors.
    """
    if x.ndim == 4:  # along each image first: its values lie side by side
        images = x.flatten(2)
        high, low = images.amax(2).amax(0), images.amin(2).amin(0)
    else:
        rows = x.flatten(0, -2)
        high, low = rows.amax(0), rows.amin(0)
    return torch.mean((high == low).float())


def _is_same(x: Tensor, y: Tensor) -> bool:
    """Whether two are one tensor, unchanged."""
    return x.data_ptr() == y.data_ptr() and x.shape == y.shape and x._version == y._version


def _energy(x: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x)
    return norm.double().square()


def _moments_of(x: Tensor, mean: Tensor, energy: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation, by norms: `var_mean`, which goes from value to value, takes five times as long."""
    count = float(max(1, x.numel()))
    variance = energy / count - mean.double().square()
    if not variance > _CANCELLATION * energy / count:  # too few digits are left: centre first
        variance = _energy(x - mean) / count
    return mean, variance.sqrt()


def _variety(rows: Tensor, mean: Tensor, energy: Tensor) -> Tensor:
    """Share of the rows' energy in which they differ from their mean: 1 − n ‖mean‖² / Σ ‖row‖²."""
    share: Tensor = 1 - len(rows) * torch.linalg.vector_norm(mean).double().square() / energy
    if not share > _CANCELLATION:  # too few digits are left: centre first
        share = torch.linalg.vector_norm(rows - mean).double().square() / energy
    return share
