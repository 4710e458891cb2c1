"""How the gradient of the loss fares during backpropagation through the blocks."""

import math
from collections.abc import Iterable

from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import Members, members_of
from bathyscope.core.fetch import Readings
from bathyscope.core.probe import Observer, Probe, probe
from bathyscope.core.records import Block, Measurement
from bathyscope.linalg import conditioning_of_many
from bathyscope.measure.representations import LARGEST_SIDE
from bathyscope.measure.rows import Later, Rows, Seen, axes_of, find_blocks, read_norm


def gradients(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    blocks: Iterable[str] | Blocks | None = None,
    tolerance: float | None = None,
    largest_side: int = LARGEST_SIDE,
) -> Measurement:
    """Gradient norms at every block's input and output, their ratio, and the conditioning.

    Columns, one value per block:
        norm_in, norm_out: ‖∂E/∂x_l‖₂ and ‖∂E/∂x_{l+1}‖₂ over the whole batch.
        ratio: ‖∂E/∂x_{l+1}‖₂ / ‖∂E/∂x_l‖₂, 1 for a block that preserves the norm
            (norm_preservation, section 4.1); below 1 the gradient grows during backpropagation.
        ratio_from_loss: ‖∂E/∂x_{L+1}‖₂ / ‖∂E/∂x_l‖₂, from the output of the last block measured to
            this input: the product of the ratios of this block and of all after it, and of what
            lies between two blocks (an activation called as a function).
        condition, effective_condition, rank, full_rank, stable_rank, tolerance: of the gradient at
            the output as a matrix of samples × everything else (singularity, definition 3).
        over_time: of a recurrent layer, the norm at the first tenth of the time steps of its input
            over that at the last; None for other blocks.
        non_finite: fraction of entries, at input or output, that are NaN or infinite.
    The loss itself stands in `settings`.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        blocks: names or globs, or blocks found before; by default they are found.
        tolerance: relative to σ_max; by default what rounding in the gradient's dtype can make.
        largest_side: wider Gram matrices are left out, and a note says so.

    Returns:
        The measurement `gradients`.

    Raises:
        UsageError: the batch, the loss or the model does not fit the others.

    Examples:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
        >>> with torch.no_grad():
        ...     _ = [layer.weight.copy_(4 * torch.eye(2)) for layer in model]
        >>> found = gradients(model, (torch.ones(1, 2), None), loss=lambda y, _: y.sum())
        >>> found["ratio"], found["ratio_from_loss"]
        ((0.25, 0.25), (0.0625, 0.25))
    """
    result = find_blocks(model, batch, blocks)
    observer = GradientObserver(model, result, tolerance=tolerance, largest_side=largest_side)
    return observer.measurement(
        probe(model, batch, loss=loss, blocks=result, observers=(observer,))
    )


RECURRENT = ("RNN", "LSTM", "GRU")
"""Kinds of layer that read a sequence step by step."""


class GradientObserver(Observer):
    """Reduces gradients as they arrive."""

    def __init__(
        self,
        model: nn.Module | Members,
        blocks: Blocks,
        *,
        tolerance: float | None = None,
        largest_side: int = LARGEST_SIDE,
        readings: Readings | None = None,
    ) -> None:
        self.readings = readings or Readings()
        self.members = members_of(model)
        self.tolerance = tolerance
        self.largest_side = largest_side
        self.norms_in: dict[int, float] = {}
        self.norms_out: dict[int, float] = {}
        self.non_finite: dict[int, float] = {}
        self.later = Later(self._decompose)
        self.rows = Rows(
            blocks,
            (
                *("norm_in", "norm_out", "ratio", "ratio_from_loss", "condition"),
                *("effective_condition", "rank", "full_rank", "stable_rank", "tolerance"),
                *("over_time", "non_finite"),
            ),
        )

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """The norm at the input."""
        self._read_norm(self.norms_in, block, gradient)
        if block.kind in RECURRENT and gradient.ndim == 3:
            axes = axes_of(self.members, block, ndim=3)
            time = 1 - axes.samples
            tenth = max(1, gradient.shape[time] // 10)
            first: list[float] = []

            def compare(last: float, _: float) -> None:
                if last > 0:
                    self.rows.put(block, over_time=first[0] / last)

            end = gradient.narrow(time, gradient.shape[time] - tenth, tenth)
            read_norm(
                self.readings, gradient.narrow(time, 0, tenth), lambda norm, _: first.append(norm)
            )
            read_norm(self.readings, end, compare)

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        """The norm and the conditioning at the output."""
        self._read_norm(self.norms_out, block, gradient)
        if gradient.ndim == 0 or gradient.numel() == 0:
            return
        side = self._side(block, gradient)
        if side > self.largest_side:
            self.rows.note(
                f"Gradients of more than {self.largest_side} samples and features were not "
                f"decomposed ({block.label}: {side}); raise largest_side to have them."
            )
            return
        self.later.add(block, gradient)

    def _samples(self, block: Block, gradient: Tensor) -> int:
        return axes_of(self.members, block, ndim=gradient.ndim).samples

    def _side(self, block: Block, gradient: Tensor) -> int:
        rows = gradient.shape[self._samples(block, gradient)]
        return min(rows, gradient.numel() // rows)

    def _decompose(self, seen: list[Seen]) -> None:
        for axis in sorted({self._samples(*one) for one in seen}):
            alike = [one for one in seen if self._samples(*one) == axis]
            spectra = conditioning_of_many(
                [one.tensor for one in alike], mode=axis, tolerances=[self.tolerance] * len(alike)
            )
            for one, result in zip(alike, spectra, strict=True):
                self.rows.put(
                    one.block,
                    condition=result.condition_number,
                    effective_condition=result.effective_condition_number,
                    rank=result.rank,
                    full_rank=self._side(*one),
                    stable_rank=result.stable_rank,
                    tolerance=result.tolerance,
                )

    def _read_norm(self, norms: dict[int, float], block: Block, gradient: Tensor) -> None:
        def put(norm: float, lost: float) -> None:
            norms[block.index] = norm
            self.non_finite[block.index] = max(lost, self.non_finite.get(block.index, 0.0))

        read_norm(self.readings, gradient, put)

    def measurement(self, result: Probe) -> Measurement:
        """The record, once the pass is over."""
        self.later.flush()
        self.readings.flush()
        measured = [i for i in self.norms_out if i in self.norms_in]  # not those it went around
        end = self.norms_out[max(measured)] if measured else math.nan
        for block in self.rows.blocks:
            norm_in = self.norms_in.get(block.index, math.nan)
            norm_out = self.norms_out.get(block.index, math.nan)
            self.rows.put(
                block,
                norm_in=norm_in,
                norm_out=norm_out,
                ratio=quotient(norm_out, norm_in),
                ratio_from_loss=quotient(end, norm_in) if block.index in measured else None,
                non_finite=self.non_finite.get(block.index),
            )
        return self.rows.measurement(
            "gradients",
            loss=result.loss,
            tolerance=self.tolerance if self.tolerance is not None else "rounding",
            largest_side=self.largest_side,
        )


def quotient(a: float, b: float) -> float:
    """a/b, infinite where only b is zero, not a number where both are.

    Examples:
        >>> quotient(1.0, 0.0), quotient(0.0, 2.0)
        (inf, 0.0)
    """
    if b == 0:
        return math.inf if a > 0 else math.nan
    return a / b
