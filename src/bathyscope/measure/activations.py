"""What each block puts out: its moments and range, its dead units, and how much it changes."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import Members, members_of
from bathyscope.core.fetch import fetch
from bathyscope.core.probe import Observer, probe
from bathyscope.core.records import Block, Measurement
from bathyscope.linalg import frobenius_norm, rescale
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
        self, model: nn.Module | Members, blocks: Blocks, *, mode: ModeObserver | None = None
    ) -> None:
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
        self.dead: list[tuple[Block, Tensor, int]] = []

    def on_input(self, block: Block, x: Tensor) -> None:
        """Remember the input, and at which version of its storage it was read."""
        self.inside = (block, x, x._version)

    def on_output(self, block: Block, x: Tensor) -> None:
        """Reduce the output, and compare it with the input where that is still there."""
        moments = moments_of(x)
        self.rows.put(block, **moments._asdict())
        if _are_fractions(x, moments):  # attention's own softmax does not end a block
            self.rows.put(block, nonlinearity="softmax")
        if self.inside is not None and self.inside[0] is block:
            _, before, version = self.inside
            if before.shape == x.shape and before._version == version and not moments.non_finite:
                size = frobenius_norm(before)
                change = frobenius_norm(x - before.to(x.device))
                self.rows.put(block, change=change / size if size else math.nan)
        self.inside = None

    def _nonlinear(self, name: str, output: Tensor) -> None:
        if self.inside is None or output.ndim == 0:
            return
        block = self.inside[0]
        self.rows.put(block, nonlinearity=name)
        axes = axes_of(self.members, block, ndim=output.ndim)
        dead = count_dead_units(output, units=axes.units)
        if dead is not None:
            self.dead.append((block, dead, output.shape[axes.units]))

    def measurement(self) -> Measurement:
        """The record, once the pass is over."""
        fractions: dict[int, float] = {}
        for (block, _, width), (dead,) in zip(
            self.dead, fetch([dead for _, dead, _ in self.dead]), strict=True
        ):
            fractions[block.index] = max(dead / width, fractions.get(block.index, 0.0))
            self.rows.put(block, dead_units=fractions[block.index])
        return self.rows.measurement("activations")


def _are_fractions(x: Tensor, moments: "Moments") -> bool:
    """Whether the units of every sample are positive and sum to one, as a softmax leaves them."""
    width = x.shape[-1] if x.ndim > 1 else 1
    if width == 1 or not (moments.min >= 0 and math.isclose(moments.mean * width, 1, rel_tol=1e-4)):
        return False
    return torch.allclose(x.sum(-1), x.new_ones(()), rtol=1e-3)


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


def _range(x: Tensor) -> tuple[float, float]:
    if x.numel() == 0:
        return math.nan, math.nan
    low, high = torch.stack(x.aminmax()).tolist()
    return low, high
