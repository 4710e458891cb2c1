"""Theorem 1, lemmas 2, 4 and 5, section V.B: distance to singularity, powers, products, square matrices."""

import math

import torch

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption
from bathyscope.linalg import conditioning_of

_RANK = 1e-10  # singular values below this, relative to the largest, count as zero


def measure_theorem_1(seed: int, *, norm: float = 1.0) -> Measured:
    """Perturbations of five matrices: the one that makes it singular, and 200 that are smaller."""
    generator = torch.Generator().manual_seed(seed)
    size, singular, smaller, made = 6, 0.0, 1.0, 0.0
    for _ in range(5):
        M = normal(generator, size, size)
        M = norm * M / torch.linalg.matrix_norm(M, 2)
        distance = 1 / conditioning_of(M).condition_number
        U, sizes, Vh = torch.linalg.svd(M)
        nearest = -sizes[-1] * torch.outer(U[:, -1], Vh[-1])
        singular = max(singular, float(torch.linalg.svdvals(M + nearest)[-1]))
        made = max(made, abs(float(torch.linalg.matrix_norm(nearest, 2)) / distance - 1))
        E = normal(generator, 200, size, size)
        E[0] = nearest  # the worst direction among them
        E = 0.999 * distance * E / torch.linalg.matrix_norm(E, 2)[:, None, None]
        smaller = min(smaller, float(torch.linalg.svdvals(M + E)[:, -1].min()) / distance)
    return Measured(
        numbers={
            "smallest_after_nearest": singular,
            "size_of_nearest_over_distance": 1 + made,
            "smallest_after_smaller": smaller,
        },
        assumptions=(Assumption(statement="‖M‖ = 1", holds=abs(norm - 1) < 1e-12, value=norm),),
    )


def theorem_1(numbers: Numbers) -> list[Relation]:
    """A change of 1/κ makes it singular, and none of 0.999/κ does."""
    return [
        at_most("σ_min after the nearest change", numbers["smallest_after_nearest"], 1e-12),
        at_most(
            "size of that change, over 1/κ", numbers["size_of_nearest_over_distance"], 1 + 1e-9
        ),
        at_least("σ_min after smaller changes, over 1/κ", numbers["smallest_after_smaller"], 5e-4),
    ]


THEOREM_1 = Claim(
    name="singularity.theorem_1",
    formula=r"\min_{\Delta}\{\|\Delta\| : M+\Delta \text{ singular}\} = 1/\kappa(M)",
    statement="The distance of a matrix of norm one to the singular matrices is 1/κ.",
    assumptions=("‖M‖ = 1", "M is non-singular"),
    tested="A perturbation of size 1/κ that makes it singular, and many smaller ones that do not.",
    definition="a fact of textbooks",
    measure=measure_theorem_1,
    law=theorem_1,
    takes=("norm",),
)


def measure_lemma_2(seed: int) -> Measured:
    """W^m against Σ σ^{2m} u uᵀ for a Gaussian W, and for W = BBᵀ; error relative to W^m."""
    generator = torch.Generator().manual_seed(seed)
    size = 16
    B = normal(generator, size, size) / size**0.5
    U, sizes, _ = torch.linalg.svd(B)
    errors: dict[str, list[float]] = {"general": [], "symmetric": [], "symmetric_halved": []}
    for m in (2, 4, 8):
        formula = (U * sizes ** (2 * m)) @ U.T
        power = torch.linalg.matrix_power(B, m)
        errors["general"].append(float((power - formula).norm() / power.norm()))
        power = torch.linalg.matrix_power(B @ B.T, m)
        errors["symmetric"].append(float((power - formula).norm() / power.norm()))
        halved = (U * sizes**m) @ U.T
        errors["symmetric_halved"].append(float((power - halved).norm() / power.norm()))
    return Measured(numbers=errors, settings={"n": size, "m": (2, 4, 8)})


def lemma_2(numbers: Numbers) -> list[Relation]:
    """For any W."""
    return [at_most("Gaussian W: relative error", max(numbers["general"]), 1e-9)]


def lemma_2_symmetric(numbers: Numbers) -> list[Relation]:
    """For W = BBᵀ."""
    return [at_most("W = BBᵀ: relative error", max(numbers["symmetric"]), 1e-9)]


LEMMA_2 = Claim(
    name="singularity.lemma_2",
    formula=r"W^m = \sum_i \sigma_i^{2m}\, u_i u_i^\top",
    statement="W^m = Σ σ_i^{2m} u_i u_iᵀ, with σ_i and u_i from the singular value "
    "decomposition of W.",
    tested="Both sides for Gaussian W, and for W = BBᵀ with σ and u of B.",
    measure=measure_lemma_2,
    law=lemma_2,
    under="W = BBᵀ, with σ_i and u_i those of B (the proof assumes it); for a general W nothing of "
    "the kind is true",
    law_under=lemma_2_symmetric,
)


def _deficiency(matrix: torch.Tensor) -> int:
    """How far the rank is below the smaller side: zero for a non-singular matrix."""
    sizes = torch.linalg.svdvals(matrix)
    if float(sizes[0]) == 0:
        return len(sizes)
    return int((sizes <= _RANK * sizes[0]).sum())


def measure_lemma_4(seed: int) -> Measured:
    """Products AB with B of rank n − 1, for square A, tall A and wide A."""
    generator = torch.Generator().manual_seed(seed)
    n = 5
    result = {}
    for name, rows in (("square", 5), ("tall", 8), ("wide", 2)):
        B = normal(generator, n, n - 1) @ normal(generator, n - 1, n)
        result[name] = _deficiency(normal(generator, rows, n) @ B)
        result[f"{name}_B"] = _deficiency(B)
    return Measured(numbers=result)


def lemma_4(numbers: Numbers) -> list[Relation]:
    """AB lacks rank whatever A is."""
    return [
        at_least(f"{n} A: rank that AB lacks", numbers[n], 1) for n in ("square", "tall", "wide")
    ]


def lemma_4_square(numbers: Numbers) -> list[Relation]:
    """AB lacks rank for square and tall A; for wide A it need not."""
    return [
        *(at_least(f"{n} A: rank that AB lacks", numbers[n], 1) for n in ("square", "tall")),
        at_most("wide A: rank that AB lacks", numbers["wide"], 0),
    ]


LEMMA_4 = Claim(
    name="singularity.lemma_4",
    statement="If B is singular, so is AB.",
    tested="Random matrices of square and of other shapes, B without full rank.",
    measure=measure_lemma_4,
    law=lemma_4,
    under="A has at least as many rows as B has rank to lose, m ≥ min(n, p), as square matrices do",
    law_under=lemma_4_square,
)


def measure_lemma_5(seed: int) -> Measured:
    """Products of matrices of full rank: square, with a narrow middle, and with a wide one."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.cat([torch.eye(2), torch.zeros(2, 2)], dim=1).double()
    second = torch.cat([torch.zeros(2, 2), torch.eye(2)]).double()
    pairs = {
        "square": (normal(generator, 5, 5), normal(generator, 5, 5)),
        "narrow middle": (normal(generator, 6, 3), normal(generator, 3, 6)),
        "wide middle": (first, second),
    }
    result: dict[str, int] = {}
    for name, (A, B) in pairs.items():
        result[name] = _deficiency(A @ B)
        result[f"{name}, factors"] = _deficiency(A) + _deficiency(B)
    return Measured(numbers={"lacking": result})


def lemma_5(numbers: Numbers) -> list[Relation]:
    """AB has full rank whatever the shapes."""
    lacking = numbers["lacking"]
    return [
        at_most(f"{name}: rank that AB lacks", lacking[name], 0)
        for name in ("square", "narrow middle", "wide middle")
    ]


def lemma_5_square(numbers: Numbers) -> list[Relation]:
    """It has for square matrices, and need not for others."""
    lacking = numbers["lacking"]
    return [
        at_most("square: rank that AB lacks", lacking["square"], 0),
        at_least("narrow middle: rank that AB lacks", lacking["narrow middle"], 1),
        at_least("wide middle: rank that AB lacks", lacking["wide middle"], 1),
    ]


LEMMA_5 = Claim(
    name="singularity.lemma_5",
    statement="If A and B are non-singular, so is AB.",
    tested="Random and chosen matrices of square and of other shapes, both of full rank.",
    measure=measure_lemma_5,
    law=lemma_5,
    under="A and B are square",
    law_under=lemma_5_square,
)


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
