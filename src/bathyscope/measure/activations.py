"""What each block puts out: its moments and range, its dead units, and how much it changes."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import Members, members_of
from bathyscope.core.fetch import SMALL, Readings
from bathyscope.core.probe import Observer, probe
from bathyscope.core.records import Block, Measurement
from bathyscope.linalg import frobenius_norm, rescale
from bathyscope.linalg.norms import norm_on_device
from bathyscope.measure.functions import (
    ModeObserver,
    Nonlinearities,
    count_dead_units,
    modal_functions,
)
from bathyscope.measure.rows import Rows, axes_of, find_blocks, fraction_non_finite

# Below this fraction of the mean square, E x² - (E x)² has lost too many digits: center first.
_CANCELLATION = 1e-2


def activations(
    model: nn.Module, batch: Batch, *, loss: LossFn, blocks: Iterable[str] | Blocks | None = None
) -> Measurement:
    """Mean, deviation and range of every block's output, dead units, and change of the signal.

    Columns, one value per block:
        mean, std, min, max: over all finite entries of the block's output x_{l+1}.
        dead_units: fraction of units that give one value for the whole batch, the largest of the
            block's activation functions; None where it calls none.
        nonlinearity: the last activation function that it calls.
        change: ‖x_{l+1} − x_l‖ / ‖x_l‖, the strength of a residual branch; None where the shape
            changes or the input was overwritten.
        non_finite: fraction of entries that are NaN or infinite.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        blocks: names or globs, or blocks found before; by default they are found.

    Returns:
        The measurement `activations`.

    Raises:
        UsageError: the batch, the loss or the model does not fit the others.

    Examples:
        >>> import torch.nn.functional as F
        >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> _ = nn.init.constant_(model[0].bias, -100.0)
        >>> batch = torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
        >>> activations(model, batch, loss=F.cross_entropy)["dead_units"]
        (1.0, None)
    """
    result = find_blocks(model, batch, blocks)
    observer = ActivationObserver(model, result)
    probe(model, batch, loss=loss, blocks=result, observers=(observer,), modes=(observer.watching,))
    return observer.measurement()


class ActivationObserver(Observer):
    """Reduces outputs as they appear; run the pass inside `watching` to count dead units."""

    def __init__(
        self,
        model: nn.Module | Members,
        blocks: Blocks,
        *,
        mode: ModeObserver | None = None,
        readings: Readings | None = None,
    ) -> None:
        self.readings = readings or Readings()
        self.members = members_of(model)
        self.rows = Rows(
            blocks,
            ("mean", "std", "min", "max", "dead_units", "nonlinearity", "change", "non_finite"),
        )
        self.watching = Nonlinearities(
            self._nonlinear,
            also=modal_functions() if mode is not None else frozenset(),
            called=mode.called if mode is not None else None,
        )
        self.inside: tuple[Block, Tensor, int] | None = None
        self.dead: dict[int, float] = {}

    def on_input(self, block: Block, x: Tensor) -> None:
        """Remember the input, and at which version of its storage it was read."""
        self.inside = (block, x, x._version)

    def on_output(self, block: Block, x: Tensor) -> None:
        """Reduce the output, and compare it with the input where that is still there."""
        before = None
        if self.inside is not None and self.inside[0] is block:
            _, before, version = self.inside
            if before.shape != x.shape or before._version != version:
                before = None
        self.inside = None
        if x.device.type == "cpu":
            self._put(block, x, before if before is None else before.to(x.device))
        elif x.numel() <= SMALL:
            copies = (x.clone(),) if before is None else (x.clone(), before.to(x.device).clone())
            self.readings.add(lambda *read: self._put(block, *read), *copies)
        else:
            self._put_later(block, x, before)

    def _put(self, block: Block, x: Tensor, before: Tensor | None = None) -> None:
        moments = moments_of(x)
        sizes = None
        if before is not None and not moments.non_finite:
            sizes = frobenius_norm(before), frobenius_norm(x - before)
        self._put_numbers(block, moments, sizes, is_softmax=_are_fractions(x, moments))

    def _put_later(self, block: Block, x: Tensor, before: Tensor | None) -> None:
        """As `_put`, of numbers that are computed on the device of a large output."""
        given = [*_sums_on_device(x), _rows_sum_to_one(x)]
        if before is not None:
            near = before.to(x.device)
            given += [norm_on_device(near), norm_on_device(x - near)]

        def put(*read: Tensor) -> None:
            *sums, flag = [number.item() for number in read[:7]]
            moments = _moments_of_sums(sums, x_entries)
            sizes = None if before is None or moments.non_finite else (
                read[7].item(), read[8].item())  # fmt: skip
            is_softmax = bool(flag) and _may_be_fractions(moments, width)
            self._put_numbers(block, moments, sizes, is_softmax=is_softmax)

        x_entries, width = x.numel(), x.shape[-1] if x.ndim > 1 else 1
        self.readings.add(put, *given)

    def _put_numbers(
        self,
        block: Block,
        moments: "Moments",
        sizes: tuple[float, float] | None,
        *,
        is_softmax: bool,
    ) -> None:
        self.rows.put(block, **moments._asdict())
        if is_softmax:  # attention's own softmax does not end a block
            self.rows.put(block, nonlinearity="softmax")
        if sizes is not None:
            size, change = sizes
            self.rows.put(block, change=change / size if size else math.nan)

    def _nonlinear(self, name: str, output: Tensor) -> None:
        if self.inside is None or output.ndim == 0:
            return
        block = self.inside[0]
        self.rows.put(block, nonlinearity=name)
        axes = axes_of(self.members, block, ndim=output.ndim)
        dead = count_dead_units(output, units=axes.units)
        if dead is not None:
            width = output.shape[axes.units]

            def put(number: Tensor) -> None:
                fraction = number.item() / width
                self.dead[block.index] = max(fraction, self.dead.get(block.index, 0.0))
                self.rows.put(block, dead_units=self.dead[block.index])

            self.readings.add(put, dead)

    def measurement(self) -> Measurement:
        """The record, once the pass is over."""
        self.readings.flush()
        return self.rows.measurement("activations")


def _are_fractions(x: Tensor, moments: "Moments") -> bool:
    """Whether the units of every sample are positive and sum to one, as a softmax leaves them."""
    width = x.shape[-1] if x.ndim > 1 else 1
    return _may_be_fractions(moments, width) and bool(_rows_sum_to_one(x))


def _may_be_fractions(moments: "Moments", width: int) -> bool:
    if width == 1 or not moments.min >= 0:
        return False
    return math.isclose(moments.mean * width, 1, rel_tol=1e-4)


def _rows_sum_to_one(x: Tensor) -> Tensor:
    return ((x.sum(-1) - 1).abs() <= 1e-3).all()


class Moments(NamedTuple):
    """Moments and range over the finite entries of a tensor, and the fraction of the others."""

    mean: float
    std: float
    min: float
    max: float
    non_finite: float


def moments_of(x: Tensor) -> Moments:
    """Mean, standard deviation (divided by n) and range of the finite entries.

    Examples:
        >>> moments_of(torch.tensor([-2.0, 2.0, float("inf")], dtype=torch.float64))[2:]
        (-2.0, 2.0, 0.33333333333333337)
    """
    lost = 0.0
    low, high = _range(x)
    if not math.isfinite(low) or not math.isfinite(high):
        lost = fraction_non_finite(x)
        x = x[torch.isfinite(x)]
        low, high = _range(x)
    if x.numel() == 0:
        return Moments(math.nan, math.nan, math.nan, math.nan, lost)
    tensor, unit = rescale(x, largest=max(-low, high))
    unit = unit or 1.0  # all zeros
    mean = tensor.sum().item() / tensor.numel()
    mean_square = frobenius_norm(tensor) ** 2 / tensor.numel()
    variance = mean_square - mean**2
    if variance < _CANCELLATION * mean_square:
        variance = frobenius_norm(tensor - mean) ** 2 / tensor.numel()
    return Moments(unit * mean, unit * math.sqrt(variance), low, high, lost)


def _sums_on_device(x: Tensor) -> list[Tensor]:
    """How many entries are finite, and of these the range, the sum, the norm and that about the mean."""
    if x.dtype != torch.float64:
        x = x.float()
    finite = torch.isfinite(x)
    number, kept = torch.count_nonzero(finite), torch.where(finite, x, 0.0)
    total = kept.sum(dtype=torch.float64)
    centered = torch.where(finite, x - total / number, 0.0)
    low, high = torch.where(finite, x, math.inf).amin(), torch.where(finite, x, -math.inf).amax()
    return [number, low, high, total, norm_on_device(kept), norm_on_device(centered)]


def _moments_of_sums(sums: list[float], entries: int) -> Moments:
    number, low, high, total, norm, about_mean = sums
    lost = 1 - number / entries
    if not number:
        return Moments(math.nan, math.nan, math.nan, math.nan, lost)
    mean, size = total / number, norm / math.sqrt(number)
    variance = (size - mean) * (size + mean)
    std = (
        math.sqrt(variance)
        if variance >= _CANCELLATION * size**2
        else about_mean / math.sqrt(number)
    )
    return Moments(mean, std, low, high, lost)


def _range(x: Tensor) -> tuple[float, float]:
    if x.numel() == 0:
        return math.nan, math.nan
    low, high = torch.stack(x.aminmax()).tolist()
    return low, high
