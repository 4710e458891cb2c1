"""Condition number and index of a symmetric matrix: exact, bounded, or refused with the reason."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.arguments import check_choice, check_number
from bathyscope.core.errors import BathyscopeError
from bathyscope.linalg import SpectralDensity

Definition = Literal["percentile", "smallest", "tolerance"]

# Up to this many parameters the matrix is formed where a question needs all eigenvalues.
EXACT_UP_TO = 2048


class Unresolved(BathyscopeError):
    """What was asked for lies below what the numbers can resolve; the bounds known are attached."""

    def __init__(self, reason: str, *, lower: float, upper: float) -> None:
        super().__init__(reason)
        self.lower, self.upper = lower, upper


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionNumber:
    """|λ|max / |λ|ref with everything that decides it.

    `reference` is the |λ| divided by; `tolerance` the |λ| below which an eigenvalue counts as zero,
    `rank` how many do not (None where only an estimate was made).
    """

    value: float
    lower: float
    upper: float
    definition: str
    largest: float
    reference: float
    tolerance: float
    rank: int | None
    dim: int
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeIndex:
    """The fraction of eigenvalues below −tolerance, and the interval that holds it."""

    fraction: float
    lower: float
    upper: float
    tolerance: float
    dim: int
    exact: bool


def rounding(dim: int, dtype: torch.dtype) -> float:
    """The fraction of |λ|max below which an eigenvalue of a computed matrix is rounding."""
    return math.sqrt(dim) * torch.finfo(dtype).eps


def exact_condition_number(
    eigenvalues: Float[Tensor, " d"], *, definition: Definition, percentile: float, tolerance: float
) -> ConditionNumber:
    """The condition number of a matrix whose eigenvalues are known.

    `percentile`: |λ|max/|λ|_(q), the q-quantile taken as the lower value without interpolation
    (shortcut_length, appendix B, with q = 0.1). `smallest`: |λ|max/|λ|min. `tolerance`: the
    denominator is the smallest |λ| above the tolerance.

    Args:
        eigenvalues: all of them.
        definition: see above.
        percentile: q.
        tolerance: relative to |λ|max; what lies below counts as zero.

    Raises:
        Unresolved: the denominator counts as zero.

    Examples:
        >>> values = torch.tensor([4.0, -2.0, 1.0, 0.5])
        >>> exact_condition_number(values, definition="smallest", percentile=0.1, tolerance=1e-9).value
        8.0
    """
    check_definition(definition, percentile, tolerance)
    sizes = eigenvalues.detach().double().abs().sort().values
    dim, largest = len(sizes), float(sizes[-1])
    _check_not_zero(largest, dim)
    threshold = tolerance * largest
    rank = int((sizes > threshold).sum())
    position = {
        "percentile": math.floor(percentile * (dim - 1)),
        "smallest": 0,
        "tolerance": min(dim - rank, dim - 1),
    }[definition]
    reference = float(sizes[position])
    if reference <= threshold:
        beyond = 1 / tolerance if tolerance else math.inf
        raise Unresolved(
            f"|λ| in the denominator ({definition}) is {reference:.2g}, which counts as zero below "
            f"{tolerance:.2g} of |λ|max = {largest:.3g}: {dim - rank} of {dim} eigenvalues do. The "
            f"condition number is beyond {beyond:.2g}; ask for definition='tolerance'.",
            lower=beyond,
            upper=math.inf,
        )
    value = largest / reference
    return ConditionNumber(
        value=value,
        lower=value,
        upper=value,
        definition=definition,
        largest=largest,
        reference=reference,
        tolerance=threshold,
        rank=rank,
        dim=dim,
        exact=True,
    )


def estimated_condition_number(
    density: SpectralDensity,
    *,
    definition: Definition,
    percentile: float,
    tolerance: float,
    resolution: float,
) -> ConditionNumber:
    """The percentile condition number from a density, where its bounds allow it.

    Raises:
        Unresolved: bounds wider than a factor of `resolution`, or a definition that needs the
            smallest eigenvalues, which lie inside the spectrum where no Krylov method looks.
    """
    check_definition(definition, percentile, tolerance)
    check_number("resolution", resolution, low=1.0)
    points = torch.cat([density.atoms, density.nodes.reshape(-1)]).abs().numpy()
    largest = float(points.max())
    _check_not_zero(largest, density.dim)
    if definition != "percentile":
        raise Unresolved(
            f"The smallest |λ| of {density.dim} eigenvalues lies inside the spectrum, where "
            "products cannot find it; ask for exact=True (the whole matrix), for definition='percentile', "
            "or for a part of the parameters small enough to be exact.",
            lower=1.0,
            upper=math.inf,
        )
    radii = np.unique(points)
    bounds = [density.fraction_within(float(r)) for r in radii]
    can = [r for r, b in zip(radii, bounds, strict=True) if b.upper >= percentile]
    must = [r for r, b in zip(radii, bounds, strict=True) if b.lower >= percentile]
    # the bound is a step function: below the first radius that can hold the quantile it cannot lie
    # only if the fraction within zero is already known to be smaller
    low = float(can[0]) if can and density.fraction_within(0.0).upper < percentile else 0.0
    high = float(must[0]) if must else largest
    if low <= tolerance * largest or high / low > resolution:
        raise Unresolved(
            f"The {percentile:.0%} quantile of |λ| is only known to lie between {low:.2g} and "
            f"{high:.2g} from {density.products} products: the condition number between "
            f"{largest / high:.2g} and {largest / low if low else math.inf:.2g}. More steps narrow "
            "it; exact=True forms the whole matrix, where it fits into memory.",
            lower=largest / high,
            upper=largest / low if low else math.inf,
        )
    reference = math.sqrt(low * high)
    return ConditionNumber(
        value=largest / reference,
        lower=largest / high,
        upper=largest / low,
        definition=definition,
        largest=largest,
        reference=reference,
        tolerance=tolerance * largest,
        rank=None,
        dim=density.dim,
        exact=False,
    )


def check_definition(definition: Definition, percentile: float, tolerance: float) -> None:
    """Raise where a condition number of this definition cannot be asked for.

    Raises:
        UsageError: an unknown definition, or a percentile or tolerance outside [0, 1].
    """
    check_choice("definition", definition, get_args(Definition))
    check_number("percentile", percentile, low=0.0, high=1.0)
    check_tolerance(tolerance)


def check_tolerance(tolerance: float) -> None:
    """Raise where a tolerance is not a fraction of |λ|max."""
    check_number("tolerance", tolerance, low=0.0, high=1.0)


def _check_not_zero(largest: float, dim: int) -> None:
    if largest == 0:
        raise Unresolved(
            f"Everything counts as zero: all of {dim} eigenvalues are 0, so there is no condition "
            "number.",
            lower=1.0,
            upper=math.inf,
        )


def exact_negative_index(eigenvalues: Float[Tensor, " d"], *, tolerance: float) -> NegativeIndex:
    """The fraction of eigenvalues below −tolerance·|λ|max.

    Examples:
        >>> exact_negative_index(torch.tensor([2.0, 1.0, -1e-20, -1.0]), tolerance=1e-9).fraction
        0.25
    """
    check_tolerance(tolerance)
    values = eigenvalues.detach().double()
    threshold = tolerance * float(values.abs().max())
    fraction = float((values < -threshold).sum()) / len(values)
    return NegativeIndex(
        fraction=fraction,
        lower=fraction,
        upper=fraction,
        tolerance=threshold,
        dim=len(values),
        exact=True,
    )


def estimated_negative_index(
    density: SpectralDensity, *, tolerance: float, resolution: float
) -> NegativeIndex:
    """The fraction of eigenvalues below −tolerance·|λ|max from a density, where its bounds allow it.

    Raises:
        Unresolved: the bounds are wider than `resolution`.
    """
    check_tolerance(tolerance)
    check_number("resolution", resolution, low=0.0, high=1.0, open_low=True)
    largest = float(torch.cat([density.atoms, density.nodes.reshape(-1)]).abs().max())
    result = density.fraction_below(-tolerance * largest)
    if result.width > resolution:
        raise Unresolved(
            f"The fraction of negative eigenvalues is only known to lie between {result.lower:.2f} and "
            f"{result.upper:.2f} from {density.products} products, wider than the resolution of "
            f"{resolution} asked for: much of the spectrum lies closer to zero than "
            f"{density.nodes.shape[1]} steps can show. Ask for more steps or a wider resolution.",
            lower=result.lower,
            upper=result.upper,
        )
    return NegativeIndex(
        fraction=result.value,
        lower=result.lower,
        upper=result.upper,
        tolerance=tolerance * largest,
        dim=density.dim,
        exact=False,
    )
