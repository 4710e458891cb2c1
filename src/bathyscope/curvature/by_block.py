"""Curvature block by block: the diagonal block of the matrix that belongs to each block of a network."""

from collections.abc import Mapping

import torch
from torch import nn

from bathyscope.core import Block, Blocks, Measurement
from bathyscope.core.arguments import check_seed
from bathyscope.core.records import Number
from bathyscope.curvature.dense_matrix import dense_by_parameter
from bathyscope.curvature.products import CurvatureOperator, DiagonalBlock
from bathyscope.curvature.resolved import (
    EXACT_UP_TO,
    Unresolved,
    exact_condition_number,
    exact_negative_index,
    rounding,
)
from bathyscope.linalg import extreme_eigenvalues, trace_estimate

# Ends smaller than this fraction of the block's |λ|max have no digits of their own worth finding.
_FLOOR = 0.1
_COLUMNS = (
    "num_parameters",
    "largest",
    "smallest",
    "trace",
    "trace_error",
    "condition_number",
    "negative_index",
)


def curvature_by_block(
    operator: CurvatureOperator,
    blocks: Blocks,
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
) -> Measurement:
    """λmax, λmin, trace, condition number and index of every block's diagonal block.

    H_bb = ∂²L/∂θ_b∂θ_b with θ_b the parameters of block b. Up to 2048 parameters it is formed and
    everything is exact; beyond, the ends come from Lanczos to a relative 1e-4 (an end below 10 % of
    |λ|max to 1e-5 of |λ|max) and the trace from 24 products with its standard error. The condition
    number is |λ|max over the 10th percentile of |λ|, the index the fraction of negative eigenvalues;
    what cannot be resolved is None and a note says why.

    Args:
        operator: the whole matrix.
        blocks: of the operator's model, from `blocks_of`.
        settings: what decides the numbers, passed on.
        seed: of the random vectors.
    """
    model = operator.objective.model
    rows: list[dict[str, Number]] = []
    kept: list[Block] = []
    notes = [*operator.objective.notes, *([blocks.note] if blocks.note else [])]
    for block in blocks:
        inside = parameters_of(model, block)
        positions = [i for i, p in enumerate(operator.parameters) if id(p) in inside]
        if not positions:
            notes.append(f"{block.label}: none of its parameters was asked for.")
            continue
        row, note = _row(DiagonalBlock(operator, positions), seed)
        rows.append(row)
        kept.append(block)
        if note:
            notes.append(f"{block.label}: {note}")
    return Measurement(
        name="curvature_by_block",
        blocks=tuple(kept),
        columns={name: tuple(row[name] for row in rows) for name in _COLUMNS},
        settings={**(settings or {}), "definition": "percentile", "percentile": 0.1},
        notes=tuple(notes),
    )


def _row(part: DiagonalBlock, seed: int) -> tuple[dict[str, Number], str]:
    row: dict[str, Number] = dict.fromkeys(_COLUMNS, None)
    row["num_parameters"] = part.dim
    if part.dim <= EXACT_UP_TO:
        values = torch.linalg.eigvalsh(dense_by_parameter(part.whole, part.positions).double())
        tolerance = rounding(part.dim, part.dtype)
        row |= {
            "largest": float(values[-1]),
            "smallest": float(values[0]),
            "trace": float(values.sum()),
            "trace_error": 0.0,
            "negative_index": exact_negative_index(values, tolerance=tolerance).fraction,
        }
        try:
            row["condition_number"] = exact_condition_number(
                values, definition="percentile", percentile=0.1, tolerance=tolerance
            ).value
        except Unresolved as refusal:
            return row, str(refusal)
        return row, ""
    generator = torch.Generator().manual_seed(check_seed(seed))
    ends = extreme_eigenvalues(
        part,
        1,
        tolerance=1e-4,
        floor=_FLOOR,
        max_products=300,
        check_copies=False,
        generator=generator,
    )
    estimate = trace_estimate(part, probes=16, sketch=4, generator=generator)
    row |= {
        "largest": float(ends.largest.values[0]),
        "smallest": float(ends.smallest.values[0]),
        "trace": estimate.value,
        "trace_error": estimate.standard_error,
    }
    note = (
        f"condition number and index not resolved: they need the block's whole matrix, and "
        f"{part.dim} parameters are more than {EXACT_UP_TO}."
    )
    if not ends.converged:
        note += f" Its ends are known to ±{float(ends.largest.errors[0]):.1g} and "
        note += f"±{float(ends.smallest.errors[0]):.1g} only."
    return row, note


def parameters_of(model: nn.Module, block: Block) -> set[int]:
    """The parameters of a module, or of the run of modules from the first to the last."""
    if block.name == block.end:
        return {id(p) for p in model.get_submodule(block.name).parameters()}
    names = [name for name, _ in model.named_modules()]
    run = names[names.index(block.name) : names.index(block.end) + 1]
    return {id(p) for name in run for p in model.get_submodule(name).parameters()}
