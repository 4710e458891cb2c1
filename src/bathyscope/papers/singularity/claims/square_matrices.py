"""Section V.B: the smallest singular value of a square Gaussian matrix, where theorem 5 says nothing."""

import math

import torch

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.core.json_values import JsonObject

_SIZES = {8: 2000, 32: 400, 96: 120}
"""Matrices drawn of each size: their medians then have errors of 2 to 9 %."""
_MEDIAN = 2 * (math.sqrt(1 + 2 * math.log(2)) - 1)
"""Median of 2√s σ_min as s → ∞, where P(√s σ_min > ε) = exp(−ε − ε²/2) (Edelman 1988).

And √s − √(s−1) → 1/(2√s).
"""


def measure_square(seed: int) -> Measured:
    """σ_min over √s − √(s−1) of square Gaussian matrices of three sizes: its quantiles."""
    generator = torch.Generator().manual_seed(seed)
    rows: list[JsonObject] = []
    for size, draws in _SIZES.items():
        smallest = torch.linalg.svdvals(normal(generator, draws, size, size))[:, -1]
        ratio = smallest / (math.sqrt(size) - math.sqrt(size - 1))
        low, median, high = torch.quantile(
            ratio, torch.tensor([0.05, 0.5, 0.95], dtype=ratio.dtype)
        ).tolist()
        rows.append(
            {
                "size": size,
                "smallest": float(smallest.median()),
                "low": low,
                "median": median,
                "high": high,
            }
        )
    first, last = rows[0], rows[-1]
    exponent = math.log(last["smallest"] / first["smallest"]) / math.log(
        last["size"] / first["size"]
    )
    return Measured(
        numbers={"sizes": rows, "exponent": exponent}, settings={"draws": list(_SIZES.values())}
    )


def of_that_order(numbers: Numbers) -> list[Relation]:
    """The typical σ_min is a constant times √s − √(s−1) at all sizes, and falls as s^(−1/2)."""
    return [
        *(
            equal(f"s = {row['size']}: median of the ratio", row["median"], _MEDIAN, slack=0.3)
            for row in numbers["sizes"]
        ),
        equal("exponent of σ_min over s", numbers["exponent"], -0.5, slack=0.12),
    ]


def every_one_near(numbers: Numbers) -> list[Relation]:
    """Nine of ten matrices within a factor of two of it."""
    return [
        relation
        for row in numbers["sizes"]
        for relation in (
            at_least(f"s = {row['size']}: ratio, 5th percentile", row["low"], 0.5),
            at_most(f"s = {row['size']}: ratio, 95th percentile", row["high"], 2.0),
        )
    ]


SECTION_5_SQUARE = Claim(
    name="singularity.section_5_square",
    formula=r"\sigma_{\min}(B) \sim \sqrt s - \sqrt{s-1}",
    statement="Where a Gaussian matrix is square, so that the lower bound of theorem 5 is zero, its "
    "smallest singular value is of the order of √s − √(s−1).",
    tested="Quantiles of σ_min over √s − √(s−1) for three sizes, and the power of s by which σ_min falls. "
    "Read as an equality for each matrix it is not so: σ_min of single matrices varies by more than a "
    "factor of ten, whatever the size.",
    definition="a fact of textbooks",
    links=(Link(to="singularity.theorem_5"),),
    measure=measure_square,
    law=of_that_order,
    law_strict=every_one_near,
)
