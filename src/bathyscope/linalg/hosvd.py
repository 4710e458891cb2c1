"""Higher-order singular value decomposition: the singular values of a tensor in every mode."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from bathyscope.core.errors import UsageError
from bathyscope.linalg.conditioning import Conditioning, conditioning_of_modes

Aggregate = Literal["max", "min", "mean", "geometric mean"]


def hosvd_of(
    tensor: Float[Tensor, " ..."],
    *,
    modes: Sequence[int] | None = None,
    tolerance: float | None = None,
    accuracy: float | None = None,
) -> tuple[Conditioning, ...]:
    """Singular values of every unfolding of a tensor, with condition number and ranks.

    σ_i^(k) is the i-th singular value of the mode-k unfolding X_(k): rows are the index of axis
    k, columns all others (singularity, section VI; the paper names neither the mode nor how
    modes are joined, so each is returned, and `aggregate` joins them under a name).

    Args:
        tensor: of any order above zero; a matrix has two modes with equal values.
        modes: the axes to unfold; all by default.
        tolerance: as in `conditioning_of`.
        accuracy: as in `conditioning_of`.

    Returns:
        One record for each mode, in the order asked.

    Raises:
        UsageError: for an axis the tensor does not have.

    Examples:
        >>> import torch
        >>> x = torch.zeros(2, 3, 4, dtype=torch.float64)
        >>> x[0, 0, 0], x[1, 1, 1] = 6.0, 3.0
        >>> [(c.rank, c.condition_number) for c in hosvd_of(x)]
        [(2, 2.0), (2, inf), (2, inf)]
    """
    axes = range(tensor.ndim) if modes is None else modes
    for axis in axes:
        if not 0 <= axis < tensor.ndim:
            raise UsageError(
                f"Mode {axis} was asked of a tensor of {tensor.ndim} axes; "
                f"give modes from 0 to {tensor.ndim - 1}."
            )
    return conditioning_of_modes(tensor, axes, tolerance=tolerance, accuracy=accuracy)


def aggregate(modes: Iterable[Conditioning], *, how: Aggregate = "max") -> float:
    """Join the condition numbers of several modes into one, under a stated rule.

    Args:
        modes: records of the modes, as `hosvd_of` returns them.
        how: `max` is infinite as soon as one mode is singular, `min` only when all are.

    Returns:
        The joined condition number; not a number where one of them is not.

    Examples:
        >>> import torch
        >>> modes = hosvd_of(torch.diag(torch.tensor([4.0, 1.0], dtype=torch.float64)))
        >>> aggregate(modes), aggregate(modes, how="geometric mean")
        (4.0, 4.0)
    """
    numbers = [mode.condition_number for mode in modes]
    if not numbers or any(math.isnan(number) for number in numbers):
        return math.nan
    if how == "max":
        return max(numbers)
    if how == "min":
        return min(numbers)
    if how == "mean":
        return math.fsum(numbers) / len(numbers) if math.inf not in numbers else math.inf
    return math.exp(sum(math.log(number) for number in numbers) / len(numbers))
