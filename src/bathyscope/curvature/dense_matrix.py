"""The whole curvature matrix, a block of columns at a time."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.devices import available_bytes, readable_size
from bathyscope.core.errors import UsageError
from bathyscope.curvature.products import CurvatureOperator, DiagonalBlock
from bathyscope.linalg import SymmetricOperator


def dense(
    operator: SymmetricOperator, *, at_once: int = 64, columns: list[int] | None = None
) -> Float[Tensor, " d d"]:
    """The matrix of an operator from products with the unit vectors, made exactly symmetric.

    Args:
        operator: symmetric, d by d.
        at_once: columns computed at the same time.
        columns: those that are not known to be zero; None for all.

    Raises:
        UsageError: the matrix would not fit into memory; the message says what it needs.

    Examples:
        >>> dense(torch.diag(torch.tensor([2.0, 1.0]))).tolist()
        [[2.0, 0.0], [0.0, 1.0]]
    """
    d = operator.shape[0]
    matrix = _room_for(operator)
    wanted = (
        torch.arange(d, device="cpu")
        if columns is None
        else torch.tensor(columns, dtype=torch.long, device="cpu")
    )
    for part in wanted.to(operator.device).split(at_once):
        units = torch.zeros(d, len(part), dtype=operator.dtype, device=operator.device)
        units[part, torch.arange(len(part), device=operator.device)] = 1
        # rows, because that is how they lie in memory; the matrix is symmetric
        matrix[part] = (operator @ units).T
    return (matrix + matrix.T) / 2


def dense_by_parameter(
    whole: CurvatureOperator, positions: Sequence[int], *, at_once: int = 64
) -> Float[Tensor, " d d"]:
    """The diagonal block of some parameters as a matrix, parameter by parameter.

    Of the columns of one parameter only the rows of this one and of those after it are computed, the
    rest follows by symmetry: where parameters come in the order in which they are used, the part of
    the graph before the parameter is not gone through.

    Args:
        whole: H or G of an objective.
        positions: of the parameters.
        at_once: columns computed at the same time.

    Raises:
        UsageError: the matrix would not fit into memory; the message says what it needs.
    """
    part = DiagonalBlock(whole, positions)
    matrix = _room_for(part)
    start = 0
    for k, position in enumerate(positions):
        size = whole.parameters[position].numel()
        free = size if whole.parameters[position].requires_grad else 0
        for first in range(0, free, at_once):
            chosen = torch.arange(first, min(first + at_once, free), device=part.device)
            units = torch.zeros(part.dim - start, len(chosen), dtype=part.dtype, device=part.device)
            units[chosen, torch.arange(len(chosen), device=part.device)] = 1
            matrix[start + chosen, start:] = whole.times(units, positions[k:]).T
        # Within the parameter both halves are known; a half of each, since the sum below adds them.
        matrix[start : start + size, start : start + size] /= 2
        start += size
    return matrix + matrix.T


def _room_for(operator: SymmetricOperator) -> Float[Tensor, " d d"]:
    """A matrix of zeros of its size, if that and its transpose fit."""
    d = operator.shape[0]
    # the matrix and its transpose while it is made symmetric
    needed = 2 * d * d * torch.finfo(operator.dtype).bits // 8
    free = available_bytes(operator.device)
    if needed > free:
        raise UsageError(
            f"The dense matrix of {d} parameters needs {readable_size(needed)} and {readable_size(free)} are "
            "free; take fewer with parameters=..., or use extremes(), density() and trace(), which "
            "need no matrix."
        )
    return torch.zeros(d, d, dtype=operator.dtype, device=operator.device)


def check_room_for_matrices(runs: int, dim: int, like: Tensor) -> None:
    """Raise where this many dense matrices would not fit beside everything else.

    Raises:
        UsageError: with what they need and what is free.
    """
    needed = runs * dim * dim * like.element_size()
    free = available_bytes(like.device)
    if needed > 0.9 * free:
        raise UsageError(
            f"{runs} dense matrices of {dim} parameters need {readable_size(needed)} and "
            f"{readable_size(free)} are free; take fewer runs at a time."
        )
