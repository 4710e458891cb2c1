"""The full signals of a step, block by block: reduced on the spot and kept in few bytes."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.blocks import Blocks
from bathyscope.core.probe import Observer
from bathyscope.core.processes import Processes
from bathyscope.core.records import Block
from bathyscope.linalg import conditioning_of
from bathyscope.measure.attention_calls import AttentionCall
from bathyscope.measure.attention_scores import head_entropy
from bathyscope.recorder.device_reductions import DeviceReductions, Pending, read

Row = dict[str, float | int | str | bool | None]
Values = np.ndarray[tuple[int, int], np.dtype[np.floating]]
Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

COLUMNS = (
    *("mean", "std", "dead", "variety", "entropy", "gradient_in", "gradient_out", "condition"),
    "rank",
)
"""`dead`: fraction of units with one value for all samples; `variety`: fraction of the output's energy in
which samples differ from their mean; `entropy`: of attention, mean over heads, from 0 (each query
looks at one key) to 1 (at all alike)."""

# Below this share a difference of squares in float32 has lost too many digits.
_CANCELLATION = 1e-2
_SAMPLES = 16  # compared with one another: enough to see a collapse


class SampleObserver(Observer):
    """Receives the tensors of one pass and keeps one number for each block and column.

    In a group of processes each sees its own samples; the numbers are those of all samples together.
    Norms of gradients are exchanged when the pass is over (`put_gradients`).

    Attributes:
        loss_scale: by which a GradScaler has multiplied the loss; gradients are shown without it.
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
        self._values: Values = np.full((len(blocks), len(COLUMNS)), np.nan, dtype=kept)
        self._pending: list[Pending] = []  # numbers that are still on a device
        self._on_device = DeviceReductions(self.dtype, samples=_SAMPLES)
        self.conditioning = conditioning
        self.group = group
        self.num_attention_calls = 0
        self.loss_scale: Tensor | None = None
        self._inside: Block | None = None
        self._last: tuple[Tensor, Tensor] | None = None

    @property
    def values(self) -> Values:
        """A row for each block, a number for each column; what is still on a device is fetched at once."""
        pending, self._pending = self._pending + self._on_device.flush(), []
        for row, column, value in read(pending):
            place = row, COLUMNS.index(column)
            # of several calls of attention the smallest
            self._values[place] = (
                np.fmin(value, self._values[place]) if column == "entropy" else value
            )
        return self._values

    @property
    def is_empty(self) -> bool:
        """Whether no block was reached."""
        return bool(np.isnan(self.values[:, :2]).all())

    def on_input(self, block: Block, x: Tensor) -> None:
        """A block begins, and with it its attention: the input is the output of the block before."""
        self._inside = block

    def on_attention(self, call: AttentionCall) -> None:
        """Entropy of the attention in the block at hand; of several calls the smallest."""
        self.num_attention_calls += 1
        if self._inside is not None:
            self._put(self._inside, "entropy", head_entropy(call).nanmean())

    def on_output(self, block: Block, x: Tensor) -> None:
        """Moments of the output, its dead units, its variety, and its conditioning where asked."""
        self._inside = None
        if x.device.type != "cpu" and self.group is None:
            self._pending += self._on_device.add(block.index, x)
            if self.conditioning and x.ndim >= 2:
                self._put_conditioning(block, x.to(self.dtype))
            return
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
            self._put(block, "dead", _fraction_constant(few))
        if self.group is not None and self.conditioning and x.ndim >= 2:
            x = self.group.gather_rows(x)
        if self.conditioning and x.ndim >= 2:
            self._put_conditioning(block, x)

    def _put_conditioning(self, block: Block, x: Tensor) -> None:
        result = conditioning_of(x, mode=0)
        self._put(block, "condition", result.condition_number)
        self._put(block, "rank", math.nan if result.rank is None else result.rank)

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """Norm at the input."""
        self._put(block, "gradient_in", self._norm(gradient))

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        """Norm at the output."""
        self._put(block, "gradient_out", self._norm(gradient))

    def put_gradients(self, fraction: float) -> None:
        """Norms over the samples of all processes; `share` of them belongs to this one.

        The loss of each is the mean over its own: that of all is their mean, weighted by the shares.
        """
        if self.group is None:
            return
        columns = [COLUMNS.index("gradient_in"), COLUMNS.index("gradient_out")]
        squares = torch.from_numpy(np.square(fraction * self.values[:, columns], dtype=np.float64))
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

    def _norm(self, gradient: Tensor) -> Tensor:
        # one tensor ends a block and begins the next: its gradient comes twice, one call after another
        # (the last one is kept, so that no other can lie where it lay)
        if self._last is None or not _is_same(gradient, self._last[0]):
            norm: Tensor = torch.linalg.vector_norm(gradient.to(self.dtype))
            scale = self.loss_scale
            self._last = gradient, norm if scale is None else norm / scale.to(norm.device)
        return self._last[1]

    def _put(self, block: Block, column: str, value: Tensor | float) -> None:
        if isinstance(value, Tensor) and (value.device.type != "cpu" or column == "entropy"):
            self._pending.append(Pending((block.index,), column, (value,), float))
        else:
            self._values[block.index, COLUMNS.index(column)] = float(value)


class TakenSamples:
    """The samples taken so far; beyond a limit those of the older half that lie closest are let go.

    So the older half is spread over the training, however many samples an event has drawn.

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
            older = range(1, len(self.steps) // 2)
            closest = min(older, key=lambda i: self.steps[i + 1] - self.steps[i - 1])
            del self.steps[closest], self.values[closest]

    @property
    def num_bytes_each(self) -> int:
        """Memory of one sample."""
        return np.dtype(np.float32).itemsize * len(self.blocks) * len(COLUMNS)

    def rows(self) -> Iterator[Row]:
        """One row for each step and block."""
        for step, values in zip(self.steps, self.values, strict=True):
            yield from sample_rows(self.blocks, step, values)


def sample_rows(blocks: Blocks, step: int, values: Values) -> Iterator[Row]:
    """The rows of one sample, with the derived columns; a block that was not reached has none."""
    for block, numbers in zip(blocks, values, strict=True):
        result = {c: float(v) for c, v in zip(COLUMNS, numbers, strict=True) if not math.isnan(v)}
        if not result:
            continue
        lost = not {"mean", "std"} <= result.keys()  # NaN, while other columns are there
        before, after = result.get("gradient_out"), result.get("gradient_in")
        yield {
            "step": step,
            "block": block.label,
            **result,
            "ratio": before / after if before is not None and after else None,
            "finite": all(map(math.isfinite, result.values())) and not lost,
        }


def _fraction_constant(x: Tensor) -> Tensor:
    """Fraction of units with one value for all samples and places.

    Units are the channels of images and sequences of channels, and the last axis of tokens and vectors.
    """
    few = x[:1] if x.ndim > 2 else x[:2]
    if len(few) < len(x) and not _fraction_constant(few):
        return x.new_zeros(())  # what differs within the first sample differs
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
    if not variance > _CANCELLATION * energy / count:  # too few digits are left: center first
        variance = _energy(x - mean) / count
    return mean, variance.sqrt()


def _variety(rows: Tensor, mean: Tensor, energy: Tensor) -> Tensor:
    """Fraction of the rows' energy in which they differ from their mean: 1 − n ‖mean‖² / Σ ‖row‖²."""
    fraction: Tensor = 1 - len(rows) * torch.linalg.vector_norm(mean).double().square() / energy
    if not fraction > _CANCELLATION:  # too few digits are left: center first
        fraction = torch.linalg.vector_norm(rows - mean).double().square() / energy
    return fraction
