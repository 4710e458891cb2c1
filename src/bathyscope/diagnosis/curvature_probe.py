"""Curvature at the model as it stands, within a fixed number of Hessian products."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from scipy.special import stdtrit
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Measurement, Number
from bathyscope.curvature import (
    EXACT_UP_TO,
    CurvatureMatrix,
    Unresolved,
    exact_condition_number,
    exact_negative_index,
    hessian,
)
from bathyscope.curvature.by_block import parameters_of
from bathyscope.curvature.products import DiagonalBlock
from bathyscope.curvature.resolved import rounding
from bathyscope.linalg import ExtremeEigenvalues, extreme_eigenvalues

# A product costs two to three gradients: these bounds keep the probe of a deep network below forty.
_SIGNS = 4  # products for the traces
# Products for both ends of the whole spectrum, beside one of those with signs. With 11, λmax of nine in ten
# of 48 small networks was within 0.2 % of |λ|max, and λmin within 3 %.
_SEARCH = range(7, 12)
_FOUND = 3e-3  # error of an end, of |λ|max, at which the search stops
_BY_BLOCK = 48  # products for the ends of all blocks together
_SMALLEST_STEPS = 12  # with fewer steps a block's ends mean little
_FORMED_UP_TO = 128  # parameters: condition number and index need the matrix itself
_CONFIDENCE = 0.95  # of the bound on the condition number where it is not

_COLUMNS = ("largest", "smallest", "trace", "trace_error")
_EXACT_COLUMNS = ("condition_number", "negative_index")


def curvature_probe(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    blocks: Blocks,
    optimizer: torch.optim.Optimizer | None = None,
) -> Measurement:
    """Ends of the Hessian's spectrum, its trace by block, and the largest stable learning rate.

    The ends are Ritz values: λmax is at least `largest`, λmin at most `smallest`. The trace of a
    block's diagonal block is the mean of v_bᵀ(Hv)_b over random signs v, with its standard error.
    Gradient descent with momentum β is stable on a quadratic up to the rate 2(1 + β)/λmax.
    Condition number (|λ|max over the 10th percentile of |λ|) and fraction of negative eigenvalues, of
    the whole and of each block, are exact up to 128 parameters; beyond, a note says what the
    products bound of them.

    Where the loss cannot be differentiated twice all numbers are missing and a note says why.

    Args:
        model: left as it was; BatchNorm uses the batch's statistics where the model is in train mode.
        batch: inputs and targets.
        loss: averaged over the batch.
        blocks: those whose curvature is reported apart.
        optimizer: whose rate is compared; SGD only, for others the bound does not hold.
    """
    settings: JsonObject = {"batchnorm": "batch" if model.training else "running"}
    none: tuple[Number, ...] = (None,) * len(blocks)
    columns: dict[str, tuple[Number, ...]] = dict.fromkeys(_COLUMNS, none)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it would say stands in the notes
            matrix = hessian(model, batch, loss=loss, batchnorm=settings["batchnorm"])
            matrix.operator.leave_symmetry_to_caller()
            with matrix.operator.session():
                locations = _locations(matrix, unwrap(model), blocks)
                traces, products, start = _times_signs(matrix, locations)
                ends = extreme_eigenvalues(
                    matrix.operator,
                    1,
                    tolerance=_FOUND,
                    floor=1.0,
                    max_products=_SEARCH[-1],
                    min_products=_SEARCH[0],
                    start=start,
                    check_copies=False,
                )
                del start
                vectors, ends = _apart(ends)
                settings |= _ends(ends)
                settings |= _rates(settings["largest"], optimizer)
                rest = (products - vectors.T @ (vectors @ products)).double().square().sum(dim=0)
                del products
                columns |= _by_block(matrix, locations, traces)
                if matrix.shape[0] <= _FORMED_UP_TO:
                    result, exact = _from_all_eigenvalues(matrix, locations)
                    columns |= exact
                else:
                    result = _bounds(ends, rest, matrix.shape[0])
                settings |= result
                settings["products"] = matrix.num_products
        notes = (*matrix.notes, *_left_out(matrix, settings, len(blocks)))
    except BathyscopeError as reason:
        notes = (f"Curvature was not measured: {reason}",)
    return Measurement(
        name="curvature", blocks=tuple(blocks), columns=columns, settings=settings, notes=notes
    )


def _apart(result: ExtremeEigenvalues) -> tuple[Tensor, ExtremeEigenvalues]:
    """The eigenvectors found, one a row, on the host, and all else: on a device they would take much room."""
    both = result.largest, result.smallest
    vectors = torch.cat([end.vectors[: sum(end.converged)].cpu() for end in both])
    largest, smallest = (replace(end, vectors=end.vectors.new_empty(len(end), 0)) for end in both)
    return vectors, replace(result, largest=largest, smallest=smallest)


def _ends(result: ExtremeEigenvalues) -> dict[str, object]:
    """λmax and λmin with bounds on their error."""
    return {
        "largest": float(result.largest.values[0]),
        "largest_error": float(result.largest.errors[0]),
        "smallest": float(result.smallest.values[0]),
        "smallest_error": float(result.smallest.errors[0]),
    }


def _rates(largest: float, optimizer: torch.optim.Optimizer | None) -> dict[str, object]:
    """The learning rate at hand and the largest stable one, for gradient descent."""
    if not isinstance(optimizer, torch.optim.SGD) or largest <= 0:
        return {}
    group = max(optimizer.param_groups, key=lambda g: float(g["lr"]))
    momentum = float(group["momentum"])
    return {
        "learning_rate": float(group["lr"]),
        "stable_rate": 2 * (1 + momentum) / largest,
    }


def _locations(matrix: CurvatureMatrix, model: nn.Module, blocks: Blocks) -> list[list[int]]:
    """Which of the matrix's parameters belong to each block."""
    owned = [parameters_of(model, block) for block in blocks]
    parameters = matrix.operator.parameters
    return [[i for i, p in enumerate(parameters) if id(p) in own] for own in owned]


def _times_signs(
    matrix: CurvatureMatrix, locations: Sequence[Sequence[int]]
) -> tuple[list[Tensor], Tensor, tuple[Tensor, Tensor]]:
    """With random signs v: vᵀ(Hv) over each block, and Hv, one a column, on the host.

    And the sum u of these v that H lengthens most, with Hu: where a search for the ends begins. The
    products are also those that show whether the matrix is symmetric. On a device one v at a time:
    each is as large as the model.
    """
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(2, (matrix.shape[0], _SIGNS), generator=generator, device="cpu")
    signs = (2.0 * bits - 1).to(matrix.dtype)
    parts = signs.split(_SIGNS if matrix.device.type == "cpu" else 1, dim=1)
    products = torch.cat([(matrix @ part.to(matrix.device)).cpu() for part in parts], dim=1)
    matrix.operator.check_symmetry_of(signs, products)
    both = signs * products
    traces = []
    for positions in locations:
        sums = [both[s].double().sum(dim=0) for s in matrix.operator.slices_of(positions)]
        traces.append(torch.stack(sums).sum(dim=0) if sums else both.new_zeros(both.shape[1]))
    # ‖HVc‖ is largest, of all ‖c‖ = 1, for the last eigenvector of (HV)ᵀHV; the columns of V are about
    # orthogonal and of one length
    longest = torch.linalg.eigh((products.T @ products).double()).eigenvectors[:, -1]
    start, product = (c @ longest.to(c) for c in (signs, products))
    return traces, products, (start, product)


def _by_block(
    matrix: CurvatureMatrix, locations: Sequence[Sequence[int]], of_blocks: Sequence[Tensor]
) -> dict[str, tuple[Number, ...]]:
    """Ends and trace of every block; `of_blocks` are its sums of v ∘ Hv."""
    operator = matrix.operator
    steps = _BY_BLOCK // max(1, len(locations))
    rows: list[tuple[Number, ...]] = []
    for positions, traces in zip(locations, of_blocks, strict=True):
        if not positions:
            rows.append((None,) * len(_COLUMNS))
            continue
        ends: tuple[Number, Number] = (None, None)
        if steps >= _SMALLEST_STEPS:
            part = DiagonalBlock(operator, positions)
            result = extreme_eigenvalues(
                part, 1, max_products=max(2, steps), check_copies=False, tolerance=1e-2
            )
            ends = (float(result.largest.values[0]), float(result.smallest.values[0]))
        rows.append((*ends, float(traces.mean()), float(traces.std()) / _SIGNS**0.5))
    return {name: tuple(row[i] for row in rows) for i, name in enumerate(_COLUMNS)}


def _from_all_eigenvalues(
    matrix: CurvatureMatrix, locations: Sequence[Sequence[int]]
) -> tuple[JsonObject, dict[str, tuple[Number, ...]]]:
    """Condition number and index of the whole and of every block, from the matrix itself."""
    dense = matrix.dense()
    whole = dict(zip(_EXACT_COLUMNS, _condition_and_index(dense), strict=True))
    rows: list[tuple[Number, Number]] = []
    for positions in locations:
        slices = matrix.operator.slices_of(positions)
        inside = [c for s in slices for c in range(s.start, s.stop)]
        part = dense[inside][:, inside]
        rows.append(_condition_and_index(part) if inside else (None, None))
    return whole, {name: tuple(r[i] for r in rows) for i, name in enumerate(_EXACT_COLUMNS)}


def _condition_and_index(part: Tensor) -> tuple[Number, Number]:
    """None for a condition number beyond what the precision resolves."""
    values, tolerance = torch.linalg.eigvalsh(part.double()), rounding(len(part), part.dtype)
    index = exact_negative_index(values, tolerance=tolerance).fraction
    try:
        condition = exact_condition_number(
            values, definition="percentile", percentile=0.1, tolerance=tolerance
        )
    except Unresolved:
        return None, index
    return condition.value, index


def _bounds(ends: ExtremeEigenvalues, rest: Tensor, d: int) -> dict[str, object]:
    """What a few products bound: 90 % of |λ| are no smaller than the 10th percentile q, so that
    0.9 d q² ≤ ‖H‖²_F, the mean of ‖Hv‖² over signs v, and κ ≥ |λ|max √(0.9 d) / ‖H‖_F.

    The ends would carry most of the variance: those found are split off, and no others, as vectors
    that are not yet eigenvectors still depend on v. Ritz values of either sign stand for as many
    eigenvalues of it. `rest` is ‖Hv‖² without them, for each v.
    """
    both = (ends.largest, ends.smallest)
    values, errors, residuals = (
        torch.cat([getattr(end, name) for end in both])
        for name in ("values", "errors", "residuals")
    )
    converged = torch.tensor([c for end in both for c in end.converged], device="cpu")
    reach = float(stdtrit(len(rest) - 1, _CONFIDENCE) * rest.std()) / len(rest) ** 0.5
    split_off = float((values.square() + residuals.square())[converged].sum())
    frobenius = math.sqrt(split_off + float(rest.mean()) + reach)
    most = float(values.abs().max())
    return {
        "condition_number_at_least": max(1.0, most * math.sqrt(0.9 * d) / (frobenius or math.inf)),
        "negative_index_at_least": float((values < -errors).sum()) / d,
        "negative_index_at_most": 1 - float((values > errors).sum()) / d,
    }


def _left_out(matrix: CurvatureMatrix, settings: dict[str, object], blocks: int) -> list[str]:
    """What the reader does not get, with what is known of it."""
    said = []
    if "condition_number_at_least" in settings:
        said.append(
            f"Condition number and fraction of negative eigenvalues need all {matrix.shape[0]} "
            f"eigenvalues of the Hessian; from {settings['products']} products the first (|λ|max "
            "over the 10th percentile of |λ|) is at least about "
            f"{settings['condition_number_at_least']:.2g}, the second lies between "
            f"{settings['negative_index_at_least']:.2g} and "
            f"{settings['negative_index_at_most']:.2g}. Those of the blocks were left out; "
            f"`hessian(...).by_block()` gives them for blocks of up to {EXACT_UP_TO} parameters."
        )
    elif settings["condition_number"] is None:
        said.append(
            "The condition number of the Hessian (|λ|max over the 10th percentile of |λ|) is beyond "
            f"{1 / rounding(matrix.shape[0], matrix.dtype):.2g}: more than a tenth of its "
            "eigenvalues are zero to the precision at hand."
        )
    if blocks * _SMALLEST_STEPS > _BY_BLOCK:
        said.append(
            f"With {blocks} blocks the probe gives the trace of each block's "
            "Hessian but not its ends; `hessian(...).by_block()` gives both."
        )
    return said
