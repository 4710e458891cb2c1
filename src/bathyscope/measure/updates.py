"""What the next step of an optimizer would change in each block, without taking it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import members_of
from bathyscope.core.devices import on_a_copy_without_double
from bathyscope.core.fetch import SMALL, fetch, in_parts, small_to_host
from bathyscope.core.probe import probe
from bathyscope.core.records import Block, Measurement
from bathyscope.linalg import (
    Conditioning,
    conditioning_of_many,
    rounding_tolerance,
)
from bathyscope.linalg.norms import frobenius_norms
from bathyscope.measure.gradients import quotient
from bathyscope.measure.layers import parameters_of
from bathyscope.measure.next_step import below_epsilon, next_steps, non_finite_in_own_dtype
from bathyscope.measure.representations import LARGEST_SIDE
from bathyscope.measure.rows import Rows, find_blocks, fraction_non_finite


@on_a_copy_without_double
def updates(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    optimizer: torch.optim.Optimizer,
    blocks: Iterable[str] | Blocks | None = None,
    largest_side: int = LARGEST_SIDE,
) -> Measurement:
    """Size and rank of the step that an optimizer would take on this batch.

    The optimizer, with its state, is copied and the copy steps in float64, so that a step below
    the rounding of the parameters is still seen. Momentum, weight decay and whatever else the
    optimizer does is part of ΔW (for plain gradient descent, singularity, definition 4).

    Columns, one value per block, over its weights with two axes or more:
        ratio: ‖ΔW‖/‖W‖ of all of them together; infinite where all weights are zero.
        largest_ratio, largest_ratio_layer: the largest of a single weight that is not zero, nor a gain that
            starts small by design (LayerScale).
        rank_fraction, rank_layer: the smallest numerical rank of ΔW as a fraction of the full rank,
            of ΔW unfolded by outputs, and where.
        stable_rank: the smallest ‖ΔW‖²_F/σ_max².
        lost: fraction of the entries with a step that W + ΔW, rounded to their dtype, leaves as W.
        below_epsilon: the largest fraction, over its weights, of entries with a gradient whose second
            moment lies below Adam's ε.
        non_finite: fraction of the entries of W + ΔW that are NaN or infinite, computed in float64 and,
            for weights in half precision, in their own dtype.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        optimizer: over the model's parameters, with its learning rate; it is left as it was.
        blocks: names or globs, or blocks found before; by default they are found.
        largest_side: ranks of updates wider than this are left out, and a note says so.

    Returns:
        The measurement `updates`.

    Raises:
        UsageError: the optimizer holds none of the model's parameters, or needs a closure.

    Examples:
        >>> model = nn.Sequential(nn.Linear(2, 2, bias=False))
        >>> with torch.no_grad():
        ...     _ = model[0].weight.fill_(1.0)
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.25)
        >>> batch = torch.ones(1, 2), None
        >>> found = updates(model, batch, loss=lambda y, _: y.sum(), optimizer=sgd)
        >>> found["ratio"], found["rank_fraction"], model[0].weight.sum().item()
        ((0.25,), (0.5,), 4.0)
    """
    result = find_blocks(model, batch, blocks)
    gradients = probe(model, batch, loss=loss, blocks=result).gradients
    return update_measurement(model, result, gradients, optimizer, largest_side=largest_side)


def update_measurement(
    model: nn.Module,
    blocks: Blocks,
    gradients: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    largest_side: int = LARGEST_SIDE,
    steps: Mapping[str, Tensor] | None = None,
) -> Measurement:
    """The measurement `updates`, given the gradients of a pass by parameter name, and ΔW if it is known."""
    steps = next_steps(model, gradients, optimizer) if steps is None else steps
    rows = Rows(
        blocks,
        (
            *("ratio", "largest_ratio", "largest_ratio_layer", "rank_fraction", "rank_layer"),
            *("stable_rank", "lost", "below_epsilon", "non_finite"),
        ),
    )
    members = members_of(model)
    names = {
        block: {
            name: parameter.detach()
            for name, parameter in parameters_of(members, block).items()
            if name in steps and parameter.ndim >= 2 and parameter.numel()
        }
        for block in blocks
    }
    given = {name: weight for result in names.values() for name, weight in result.items()}
    near = small_to_host(given | {f"Δ {name}": steps[name] for name in given})
    weights = {name: near[name] for name in given}
    every = _steps(weights, {name: near[f"Δ {name}"] for name in given}, gradients)
    by_block = {block: [every[name] for name in result] for block, result in names.items()}
    spectra = _spectra(every, rows, largest_side=largest_side)
    lost = non_finite_in_own_dtype(model, gradients, optimizer)
    small = below_epsilon(model, {name: gradients[name] for name in every}, optimizer)
    for block, result in by_block.items():
        if result:
            _put_sizes(rows, block, result, lost, weights)
            fractions = [small[step.name] for step in result if step.name in small]
            rows.put(block, below_epsilon=max(fractions, default=None))
            _put_ranks(
                rows, block, [(s.name, spectra[s.name]) for s in result if s.name in spectra]
            )
    return rows.measurement(
        "updates",
        optimizer=type(optimizer).__name__,
        learning_rates=[float(group["lr"]) for group in optimizer.param_groups if "lr" in group],
        maximize=any(group.get("maximize") for group in optimizer.param_groups),
    )


@dataclass(frozen=True, eq=False)
class Step:
    """What would be added to a weight W, and the dtype its gradient came in.

    Attributes:
        name: of W.
        change: ΔW.
        dtype: of the gradient.
        norm, change_norm: ‖W‖ and ‖ΔW‖.
        num_moved: entries with a step.
        num_lost: of these, the ones that W + ΔW, rounded to the dtype of W, leaves as they are.
    """

    name: str
    change: Tensor
    dtype: torch.dtype
    norm: float
    change_norm: float
    num_moved: int
    num_lost: int

    @property
    def ratio(self) -> float:
        """‖ΔW‖/‖W‖."""
        return quotient(self.change_norm, self.norm)

    @property
    def side(self) -> int:
        """How many singular values ΔW has, unfolded by outputs."""
        return min(self.change.shape[0], self.change.numel() // self.change.shape[0])

    @property
    def tolerance(self) -> float:
        """Relative size below which a singular value of ΔW may come from rounding.

        The gradient was rounded to its dtype; and ΔW, the difference of W + ΔW and W in float64,
        has lost as many digits as it is smaller than W.
        """
        rows, columns = self.change.shape[0], self.change.numel() // self.change.shape[0]
        cancelled = rounding_tolerance(rows, columns, torch.float64) / min(1.0, self.ratio or 1.0)
        return min(max(rounding_tolerance(rows, columns, self.dtype), cancelled), 0.5)


_SMALL_GAIN = 0.01
"""LayerScale starts at 1e-6 to 0.1, ReZero at zero: steps of Adam are many times the first of these."""


def _starts_small_by_design(step: Step, weight: Tensor) -> bool:
    """Whether it is a vector of one small number, as the gains of LayerScale are before their first step."""
    entries = weight.numel()
    if entries < 2 or entries != max(weight.shape):
        return False
    if not 0 < step.norm <= _SMALL_GAIN * math.sqrt(entries):  # known already: nothing is fetched
        return False
    return bool((weight == weight.flatten()[0]).all())


def _put_sizes(
    rows: Rows,
    block: Block,
    steps: list[Step],
    non_finite: Mapping[str, float],
    weights: Mapping[str, Tensor],
) -> None:
    total = math.hypot(*(step.change_norm for step in steps))
    rows.put(block, ratio=quotient(total, math.hypot(*(step.norm for step in steps))))
    ratios = [
        (step.ratio, step.name)
        for step in steps
        if math.isfinite(step.ratio) and not _starts_small_by_design(step, weights[step.name])
    ]
    if ratios:
        ratio, layer = max(ratios)
        rows.put(block, largest_ratio=ratio, largest_ratio_layer=layer)
    moved = sum(step.num_moved for step in steps)
    entries = sum(step.change.numel() for step in steps)
    rows.put(
        block,
        lost=sum(step.num_lost for step in steps) / max(1, moved),
        non_finite=sum(
            max(_num_non_finite(step), non_finite.get(step.name, 0.0) * step.change.numel())
            for step in steps
        )
        / entries,
    )


def _num_non_finite(step: Step) -> float:
    if math.isfinite(step.change_norm):
        return 0.0
    return fraction_non_finite(step.change) * step.change.numel()


def _steps(
    weights: Mapping[str, Tensor], changes: Mapping[str, Tensor], gradients: Mapping[str, Tensor]
) -> dict[str, Step]:
    """The steps by name; their numbers come from an accelerator together."""
    norms = frobenius_norms([*weights.values(), *changes.values()])
    counts = _counts_of_many([(weight, changes[name]) for name, weight in weights.items()])
    numbers = zip(weights, norms, norms[len(weights) :], counts, strict=False)
    return {
        name: Step(name, changes[name], gradients[name].dtype, norm, change, moved, lost)
        for name, norm, change, (moved, lost) in numbers
    }


def _counts_of_many(pairs: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[int, int]]:
    """How many entries each weight's step moves, and how many of these W + ΔW leaves as they are.

    Small weights of the host are put together: of these the calls cost more than the numbers.
    """
    alike: dict[object, list[int]] = {}
    for i, (weight, change) in enumerate(pairs):
        if weight.device.type == change.device.type == "cpu" and weight.numel() <= SMALL:
            alike.setdefault((weight.dtype, change.dtype), []).append(i)
    result: dict[int, tuple[int, int]] = {}
    for places in alike.values():
        for part in in_parts(places, [pairs[i][0].numel() for i in places]):
            weights, changes = (torch.cat([pairs[i][k].reshape(-1) for i in part]) for k in (0, 1))
            starts = np.cumsum([0, *(pairs[i][0].numel() for i in part[:-1])])
            moved, lost = (
                np.add.reduceat(mask.numpy(), starts, dtype=np.int64).tolist()
                for mask in _moves_and_losses(weights, changes)
            )
            result |= dict(zip(part, zip(moved, lost, strict=True), strict=True))
    alone = [i for i in range(len(pairs)) if i not in result]
    counted = fetch([_counts(*pairs[i]) for i in alone])
    result |= {
        i: (int(moves), int(stays)) for i, (moves, stays) in zip(alone, counted, strict=True)
    }
    return [result[i] for i in range(len(pairs))]


def _counts(weight: Tensor, change: Tensor) -> Tensor:
    return torch.stack([mask.count_nonzero() for mask in _moves_and_losses(weight, change)])


def _moves_and_losses(weight: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
    """Which entries move, and which of them W + ΔW leaves as they are."""
    moves = change != 0
    after = (weight.double() + change).to(weight.dtype)
    return moves, moves & (after == weight)


def _spectra(
    steps: Mapping[str, Step], rows: Rows, *, largest_side: int
) -> dict[str, Conditioning]:
    result: dict[str, Conditioning] = {}
    narrow: dict[float | None, list[Step]] = {}
    for name, step in steps.items():
        if step.side > largest_side:
            rows.note(
                f"Ranks of updates wider than {largest_side} were left out ({name}: {step.side}); "
                "raise largest_side to have them."
            )
        else:
            narrow.setdefault(None if step.dtype == torch.float64 else 1e-2, []).append(step)
    for accuracy, asked in narrow.items():
        spectra = conditioning_of_many(
            [step.change for step in asked],
            tolerances=[step.tolerance for step in asked],
            accuracy=accuracy,
        )
        result |= {step.name: spectrum for step, spectrum in zip(asked, spectra, strict=True)}
    return result


def _put_ranks(rows: Rows, block: Block, spectra: list[tuple[str, Conditioning]]) -> None:
    ranks = [
        (spectrum.rank / len(spectrum.singular_values), name, spectrum.stable_rank)
        for name, spectrum in spectra
        if spectrum.rank is not None
    ]
    if ranks:
        fraction, layer, _ = min(ranks)
        stable = min(stable for _, _, stable in ranks)
        rows.put(block, rank_fraction=fraction, rank_layer=layer, stable_rank=stable)
