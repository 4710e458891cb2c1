"""Definition 1, lemmas 1 and 3, proposition 1, corollary 1, equation 14 and theorem 5: random matrices."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from bathyscope import nets
from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.core.records import Assumption
from bathyscope.linalg import conditioning_of
from bathyscope.papers.singularity.random_matrix import extreme_bounds, fuss_catalan_quantiles

_EXACT = 1e-9


def measure_definition_1(seed: int) -> Measured:
    """Matrices of rank 1 to 8 and size 8: smallest singular value, rank, and the columns' reach."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    eye = torch.eye(8, dtype=torch.float64)
    for rank in range(1, 9):
        W = normal(generator, 8, rank) @ normal(generator, rank, 8)
        reached = W @ torch.linalg.pinv(W, rtol=1e-10)
        rows.append(
            {
                "singular": conditioning_of(W, tolerance=1e-10).condition_number == math.inf,
                "rank": conditioning_of(W, tolerance=1e-10).rank,
                "unreached": float((reached - eye).abs().max()),
            }
        )
    return Measured(numbers={"matrices": rows, "size": 8})


def definition_1(numbers: Numbers) -> list[Relation]:
    """Non-singular: full rank and everything reached. (The singular ones must fall short.)"""
    result = []
    for row in numbers["matrices"]:
        if row["singular"]:
            result.append(at_most("singular: rank", row["rank"], numbers["size"] - 1))
        else:
            result.append(equal("non-singular: rank", row["rank"], numbers["size"]))
            result.append(at_most("non-singular: what the columns miss", row["unreached"], 1e-6))
    return result


DEFINITION_1 = Claim(
    name="singularity.definition_1",
    statement="The columns of a non-singular matrix are linearly independent and span the space.",
    tested="Random matrices of every rank: full rank, and every unit vector reached by the "
    "columns, exactly where no singular value is zero.",
    definition="a fact of textbooks",
    measure=measure_definition_1,
    law=definition_1,
)


def measure_lemma_1(seed: int) -> Measured:
    """Quantiles at fixed m and large n; and the second over the first singular value for large m."""
    generator = torch.Generator().manual_seed(seed)
    n = 240
    probabilities = np.linspace(0.1, 0.9, 9)
    gaps: dict[str, float] = {"product": 0.0, "power": 0.0}
    for m in (2, 3):
        law = fuss_catalan_quantiles(probabilities, factors=m)
        W = normal(generator, n, n) / math.sqrt(n)
        product = W
        for _ in range(m - 1):
            product = normal(generator, n, n) @ product / math.sqrt(n)
        for name, matrix in (("product", product), ("power", torch.linalg.matrix_power(W, m))):
            values = torch.linalg.svdvals(matrix).numpy()
            gap = np.abs(np.quantile(values, probabilities) - law).max()
            gaps[name] = max(gaps[name], float(gap))
    collapsed = {"product": 0, "power": 0}
    draws, size, m = 20, 16, 400
    for _ in range(draws):
        W = product = normal(generator, size, size)
        power = W
        for _ in range(m - 1):
            product = normal(generator, size, size) @ product
            power = W @ power
            product, power = product / product.norm(), power / power.norm()
        for name, matrix in (("product", product), ("power", power)):
            sizes = torch.linalg.svdvals(matrix)
            collapsed[name] += bool(sizes[1] < 0.01 * sizes[0])
    return Measured(
        numbers={
            "quantile_gaps": gaps,
            "fraction_of_rank_one": {name: count / draws for name, count in collapsed.items()},
        },
        settings={"n": n, "m": (2, 3), "many factors": m, "at size": size, "draws": draws},
    )


def lemma_1(numbers: Numbers) -> list[Relation]:
    """The same spectrum in both limits: many rows, and many factors."""
    fraction = numbers["fraction_of_rank_one"]
    return [
        *_lemma_1_rows(numbers),
        equal(
            "m = 400: fraction of rank one, power and product",
            fraction["power"],
            fraction["product"],
            slack=0.15,
        ),
    ]


def _lemma_1_rows(numbers: Numbers) -> list[Relation]:
    gaps = numbers["quantile_gaps"]
    return [at_most(f"quantiles of the {name}", gap, 0.15) for name, gap in gaps.items()]


LEMMA_1 = Claim(
    name="singularity.lemma_1",
    statement="The product of m Gaussian matrices and the m-th power of one have the same "
    "asymptotic singular spectrum.",
    tested="Quantiles of both against the Fuss–Catalan law for m = 2, 3 at n = 240; and the "
    "fraction of the top direction for m = 400 at n = 16, where the statement is used.",
    measure=measure_lemma_1,
    law=lemma_1,
    under="m fixed while n → ∞: for m → ∞ at fixed n the power need not become of rank one, as its "
    "top eigenvalues are often a complex pair, and the product does",
    law_under=_lemma_1_rows,
)


def measure_proposition_1(seed: int) -> Measured:
    """Ranks of 300 matrices from two laws, of sizes 2, 16 and 64."""
    generator = torch.Generator().manual_seed(seed)
    deficient, count, minimum = 0, 0, math.inf
    for size in (2, 16, 64):
        for gaussian in (True, False):
            for _ in range(50):
                W = normal(generator, size, size)
                if not gaussian:
                    W = torch.rand(size, size, generator=generator, dtype=torch.float64) - 0.5
                result = conditioning_of(W)
                count += 1
                deficient += result.rank != size
                minimum = min(minimum, 1 / result.condition_number / result.tolerance)
    return Measured(
        numbers={"matrices": count, "singular": deficient, "smallest_over_tolerance": minimum}
    )


def proposition_1(numbers: Numbers) -> list[Relation]:
    """None is singular."""
    return [at_most("singular matrices", numbers["singular"], 0)]


PROPOSITION_1 = Claim(
    name="singularity.proposition_1",
    statement="A matrix with uniform or Gaussian entries is non-singular with probability one.",
    tested="Numerical ranks of random matrices of three sizes from both laws, in float64.",
    definition="a fact of textbooks",
    measure=measure_proposition_1,
    law=proposition_1,
)


def measure_corollary_1(seed: int, *, model: nn.Module | None = None) -> Measured:
    """Rank and reconstruction of every square weight of some networks, or of the one given."""
    models = (
        [model]
        if model is not None
        else [
            nets.build("linear-plain-20", seed=seed),
            nets.build("nshortcut-6-2", width=12, init="he", seed=seed),
            nets.build("resnet-20", seed=seed),
        ]
    )
    rows: list[dict[str, object]] = []
    for network in models:
        for name, W in _square(network):
            U, sizes, Vh = torch.linalg.svd(W)
            result = conditioning_of(W)
            rows.append(
                {
                    "layer": name,
                    "deficient": len(W) - int(result.rank or 0),
                    "reconstruction": float(((U * sizes) @ Vh - W).abs().max()),
                }
            )
    assumption = Assumption(
        statement=f"there are square weights ({len(rows)})", holds=bool(rows), value=len(rows)
    )
    if not rows:
        return Measured(numbers={}, assumptions=(assumption,))
    return Measured(numbers={"layers": rows}, assumptions=(assumption,))


def _square(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Square matrices among the weights; a convolution counts with each of its taps."""
    for name, parameter in model.named_parameters():
        W = parameter.detach().double()
        if W.ndim < 2 or W.shape[0] != W.shape[1]:
            continue
        for tap, matrix in enumerate(W.flatten(2).unbind(2) if W.ndim > 2 else [W]):
            yield f"{name}[{tap}]" if W.ndim > 2 else name, matrix


def corollary_1(numbers: Numbers) -> list[Relation]:
    """Full rank, and the decomposition gives the matrix back."""
    rows = numbers["layers"]
    return [
        at_most("directions missing, in the worst layer", max(r["deficient"] for r in rows), 0),
        at_most("error of Σ σ u vᵀ", max(r["reconstruction"] for r in rows), _EXACT),
    ]


COROLLARY_1 = Claim(
    name="singularity.corollary_1",
    statement="All square weight matrices of a network are non-singular at initialization, "
    "so that W = Σ σ_i u_i v_iᵀ with σ_i > 0 (equation 10).",
    tested="Ranks of every square weight of freshly initialized networks, or of yours, and the "
    "reconstruction.",
    measure=measure_corollary_1,
    law=corollary_1,
    takes=("model",),
)


def measure_equation_14(seed: int) -> Measured:
    """Random vectors and their expansion in the left singular vectors of a random matrix."""
    generator = torch.Generator().manual_seed(seed)
    U = torch.linalg.svd(normal(generator, 12, 12)).U
    x = normal(generator, 12, 20)
    return Measured(
        numbers={
            "error": float((U @ (U.T @ x) - x).abs().max()),
            "error_without_the_last": float((U[:, :-1] @ (U[:, :-1].T @ x) - x).abs().max()),
        }
    )


def equation_14(numbers: Numbers) -> list[Relation]:
    """The expansion is exact."""
    return [at_most("error of Σ α u", numbers["error"], _EXACT)]


EQUATION_14 = Claim(
    name="singularity.equation_14",
    statement="Every vector is a combination of the left singular vectors.",
    tested="Random vectors against their expansion.",
    definition="a fact of textbooks",
    measure=measure_equation_14,
    law=equation_14,
)


def measure_lemma_3(seed: int) -> Measured:
    """Entries of sums of four Gaussian matrices; and the kurtosis of sums of products of them."""
    generator = torch.Generator().manual_seed(seed)
    means, deviations = (0.5, -1.0, 0.25, 2.0), (0.5, 1.0, 1.5, 0.25)
    size = 64
    total = sum(
        (m + s * normal(generator, size, size) for m, s in zip(means, deviations, strict=True)),
        torch.zeros(size, size, dtype=torch.float64),
    )
    entries = total.flatten().numpy()
    spread = math.sqrt(sum(s**2 for s in deviations))
    q = 4
    products = sum(
        (normal(generator, 2000, q, q) @ normal(generator, 2000, q, q) for _ in range(2)),
        torch.zeros(2000, q, q, dtype=torch.float64),
    )
    return Measured(
        numbers={
            "entries": len(entries),
            "mean": float(entries.mean()),
            "expected_mean": sum(means),
            "variance": float(entries.var()),
            "expected_variance": spread**2,
            "distance": float(stats.kstest(entries, "norm", args=(sum(means), spread)).statistic),
            "kurtosis_of_products": float(stats.kurtosis(products.flatten().numpy())),
        }
    )


def lemma_3(numbers: Numbers) -> list[Relation]:
    """Mean, variance and law, each within what sampling allows."""
    root = math.sqrt(numbers["entries"])
    variance = numbers["expected_variance"]
    return [
        equal(
            "mean",
            numbers["mean"],
            numbers["expected_mean"],
            slack=4.5 * math.sqrt(variance) / root,
        ),
        equal(
            "variance", numbers["variance"], variance, slack=4.5 * math.sqrt(2) * variance / root
        ),
        at_most("Kolmogorov–Smirnov distance", numbers["distance"], 2.2 / root),
    ]


LEMMA_3 = Claim(
    name="singularity.lemma_3",
    statement="A sum of independent Gaussian matrices is Gaussian, with the sums of means and "
    "variances.",
    tested="Mean, variance and Kolmogorov–Smirnov distance of the entries; beside it the "
    "kurtosis of the products to which the paper applies it.",
    definition="a fact of textbooks",
    measure=measure_lemma_3,
    law=lemma_3,
)


def measure_theorem_5(seed: int) -> Measured:
    """Mean extreme singular values of 200 matrices for each of four shapes, and the bounds."""
    generator = torch.Generator().manual_seed(seed)
    rows: list[dict[str, object]] = []
    for s, z in ((8, 32), (16, 64), (30, 40), (10, 100)):
        values = torch.linalg.svdvals(normal(generator, 200, s, z))
        bounds = extreme_bounds(s, z)
        rows.append(
            {
                "shape": f"{s} × {z}",
                "smallest": float(values[:, -1].mean()),
                "largest": float(values[:, 0].mean()),
                "lower": bounds.smallest,
                "upper": bounds.largest,
                "error": float(values.std(dim=0).max()) / math.sqrt(200),
            }
        )
    return Measured(
        numbers={"shapes": rows}, assumptions=(Assumption(statement="s < z", holds=True),)
    )


def theorem_5(numbers: Numbers) -> list[Relation]:
    """Both means lie within the bounds, up to four standard errors."""
    result = []
    for row in numbers["shapes"]:
        slack = 4 * row["error"]
        result += [
            at_least(f"{row['shape']}: E σ_min", row["smallest"], row["lower"], slack=slack),
            at_most(f"{row['shape']}: E σ_max", row["largest"], row["upper"], slack=slack),
        ]
    return result


THEOREM_5 = Claim(
    name="singularity.theorem_5",
    formula=r"\sqrt z - \sqrt s \le \mathbb E\,\sigma_{\min} \le \mathbb E\,\sigma_{\max} \le "
    r"\sqrt z + \sqrt s",
    statement="√z − √s ≤ E σ_min ≤ E σ_max ≤ √z + √s for a Gaussian s × z matrix.",
    assumptions=("s < z",),
    tested="Means over 200 matrices for four shapes, within four standard errors.",
    definition="a fact of textbooks",
    measure=measure_theorem_5,
    law=theorem_5,
)
