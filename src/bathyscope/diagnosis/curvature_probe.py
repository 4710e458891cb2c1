"""Curvature at the model as it stands, within a fixed number of Hessian products."""

import warnings
from typing import Any

import torch
from torch import nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import unwrapped
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.records import Measurement, Number
from bathyscope.curvature import CurvatureMatrix, hessian
from bathyscope.curvature.by_block import parameters_of
from bathyscope.curvature.products import DiagonalBlock
from bathyscope.linalg import extreme_eigenvalues

# A product costs two to three gradients: these bounds keep the probe near a hundred of them.
_SEARCH = 16  # products for both ends of the whole spectrum
_SIGNS = 4  # products for the traces
_BY_BLOCK = 48  # products for the ends of all blocks together
_LEAST_STEPS = 4  # with fewer steps a block's ends mean little
_INDEX_UP_TO = 128  # parameters: the matrix is formed to count negative eigenvalues

_COLUMNS = ("largest", "smallest", "trace", "trace_error")


def curvature_probe(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    blocks: Blocks,
    optimizer: torch.optim.Optimizer | None = None,
) -> Measurement:
    """Ends of the Hessian's spectrum, its trace by block, and the greatest stable learning rate.

    The ends are Ritz values: λmax is at least `largest`, λmin at most `smallest`. The trace of a
    block's diagonal block is the mean of v_bᵀ(Hv)_b over random signs v, with its standard error.
    Gradient descent with momentum β is stable on a quadratic up to the rate 2(1 + β)/λmax.

    Where the loss cannot be differentiated twice all numbers are missing and a note says why.

    Args:
        model: left as it was; BatchNorm uses the batch's statistics where the model is in train mode.
        batch: inputs and targets.
        loss: averaged over the batch.
        blocks: where curvature is told apart.
        optimizer: whose rate is compared; SGD only, for others the bound does not hold.
    """
    settings: dict[str, Any] = {"batchnorm": "batch" if model.training else "running"}
    none: tuple[Number, ...] = (None,) * len(blocks)
    columns: dict[str, tuple[Number, ...]] = dict.fromkeys(_COLUMNS, none)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it would say stands in the notes
            matrix = hessian(model, batch, loss=loss, batchnorm=settings["batchnorm"])
            with matrix.operator.session():
                settings |= _whole(matrix)
                settings |= _rates(settings["largest"], optimizer)
                columns |= _by_block(matrix, unwrapped(model), blocks)
                settings["products"] = matrix.num_products
        notes = _said(matrix, columns)
    except BathyscopeError as reason:
        notes = (f"Curvature was not measured: {reason}",)
    return Measurement(
        name="curvature", blocks=tuple(blocks), columns=columns, settings=settings, notes=notes
    )


def _whole(matrix: CurvatureMatrix) -> dict[str, Any]:
    """λmax, λmin with bounds on their error, and the share of negative eigenvalues where exact."""
    found = matrix.extremes(1, max_products=max(2, _SEARCH), tolerance=1e-3, check_copies=False)
    numbers: dict[str, Any] = {
        "largest": float(found.largest.values[0]),
        "largest_error": float(found.largest.errors[0]),
        "smallest": float(found.smallest.values[0]),
        "smallest_error": float(found.smallest.errors[0]),
    }
    if matrix.shape[0] <= _INDEX_UP_TO:
        numbers["negative_index"] = matrix.negative_index(exact=True).fraction
    return numbers


def _rates(largest: float, optimizer: torch.optim.Optimizer | None) -> dict[str, Any]:
    """The learning rate at hand and the greatest stable one, for gradient descent."""
    if not isinstance(optimizer, torch.optim.SGD) or largest <= 0:
        return {}
    group = max(optimizer.param_groups, key=lambda g: float(g["lr"]))
    momentum = float(group["momentum"])
    return {
        "learning_rate": float(group["lr"]),
        "stable_rate": 2 * (1 + momentum) / largest,
    }


def _by_block(
    matrix: CurvatureMatrix, model: nn.Module, blocks: Blocks
) -> dict[str, tuple[Number, ...]]:
    operator = matrix.operator
    owned = [parameters_of(model, block) for block in blocks]
    places = [[i for i, p in enumerate(operator.parameters) if id(p) in own] for own in owned]
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(2, (matrix.shape[0], _SIGNS), generator=generator)
    signs = (2.0 * bits - 1).to(device=matrix.device, dtype=matrix.dtype)
    products = (signs * (matrix @ signs)).double()
    steps = _BY_BLOCK // max(1, len(blocks))
    rows: list[tuple[Number, ...]] = []
    for positions in places:
        if not positions:
            rows.append((None,) * len(_COLUMNS))
            continue
        inside = torch.stack([products[s].sum(dim=0) for s in operator.slices_of(positions)])
        traces = inside.sum(dim=0)
        ends: tuple[Number, Number] = (None, None)
        if steps >= _LEAST_STEPS:
            part = DiagonalBlock(operator, positions)
            found = extreme_eigenvalues(
                part, 1, max_products=max(2, steps), check_copies=False, tolerance=1e-2
            )
            ends = (float(found.largest.values[0]), float(found.smallest.values[0]))
        rows.append((*ends, float(traces.mean()), float(traces.std()) / _SIGNS**0.5))
    return {name: tuple(row[i] for row in rows) for i, name in enumerate(_COLUMNS)}


def _said(matrix: CurvatureMatrix, columns: dict[str, tuple[Number, ...]]) -> tuple[str, ...]:
    said = list(matrix.notes)
    if len(columns["largest"]) * _LEAST_STEPS > _BY_BLOCK:
        said.append(
            f"With {len(columns['largest'])} blocks the probe gives the trace of each block's "
            "Hessian but not its ends; `hessian(...).by_block()` gives both."
        )
    return tuple(said)
