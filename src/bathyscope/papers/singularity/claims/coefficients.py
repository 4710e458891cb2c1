"""Theorems 3 and 4: the coefficient of every singular direction in a network of equal blocks."""

import torch
from torch import Tensor

from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.reading import linear_layers
from bathyscope.claims.relation import Relation, at_most
from bathyscope.papers.singularity.claims.depth import Kind, drawn

_SIZE, _BLOCKS = 6, 20


def measure_coefficients(seed: int, kind: Kind) -> Measured:
    """u_iᵀ h^m over α_i in a network all of whose blocks are W = BBᵀ, and three formulas for it."""
    generator = torch.Generator().manual_seed(seed)
    network = drawn(kind, _BLOCKS, seed=seed, width=_SIZE)
    paths = len(linear_layers(network.blocks[0])) // 2
    parts = [0.5 * normal(generator, _SIZE, _SIZE) / (_SIZE * paths) ** 0.5 for _ in range(paths)]
    with torch.no_grad():
        for block in network.blocks:
            layers = linear_layers(block)
            for k, part in enumerate(parts):
                layers[2 * k].weight.copy_(part.T)
                layers[2 * k + 1].weight.copy_(part)
        x = normal(generator, 1, _SIZE)
        h = network(x)[0]
    U, sizes, _ = torch.linalg.svd(torch.cat(parts, dim=1))
    result = (U.T @ h) / (U.T @ x[0])
    grown = (1 + sizes.square()) ** _BLOCKS
    printed = torch.ones_like(grown)
    printed[0] = grown[0]
    return Measured(
        numbers={
            "coefficients": result.tolist(),
            "as_printed": printed.tolist(),
            "all_grown": grown.tolist(),
            "printed_error": _relative(result, printed),
            "corrected_error": _relative(result, grown),
            "shrunk_error": _relative(result, (1 - sizes.square()) ** _BLOCKS),
        },
        settings={"size": _SIZE, "blocks": _BLOCKS, "paths": paths},
    )


def _relative(result: Tensor, formula: Tensor) -> float:
    return float(((result - formula) / result).abs().max())


def as_printed(numbers: Numbers) -> list[Relation]:
    """(1 + σ_1²)^m along u_1, and one along every other u_i."""
    return [at_most("coefficients: largest relative error", numbers["printed_error"], 1e-3)]


def all_grown(numbers: Numbers) -> list[Relation]:
    """(1 + σ_i²)^m along every u_i."""
    return [at_most("coefficients: largest relative error", numbers["corrected_error"], 1e-9)]


_CORRECTED = (
    "for W = BBᵀ, h^m = Σ_i α_i (1 + σ_i²)^m u_i: every direction grows at its own rate, so that "
    "the others fade beside the first"
)
THEOREM_3 = Claim(
    name="singularity.theorem_3",
    formula=r"h^m = \alpha_1 u_1\left[(\sigma_1^2+1)^m - 1\right] + \sum_i \alpha_i u_i",
    statement="In a deep linear residual network h^m = α_1 u_1[(σ_1² + 1)^m − 1] + Σ α_i u_i.",
    tested="The coefficients of every u_i in a network all of whose blocks are W = BBᵀ, the "
    "case for which lemma 2 is true.",
    measure=lambda seed: measure_coefficients(seed, "residual"),
    law=as_printed,
    corrected=_CORRECTED,
    law_corrected=all_grown,
)
THEOREM_4 = Claim(
    name="singularity.theorem_4",
    formula=r"h^m = \alpha_1 u_1\left[(\sigma_1^2+1)^m - 1\right] + \sum_i \alpha_i u_i",
    statement="In a deep linear aggregated network h^m = α_1 u_1[(σ_1² + 1)^m − 1] + Σ α_i u_i.",
    tested="As theorem 3, with blocks whose paths sum to W = BBᵀ.",
    measure=lambda seed: measure_coefficients(seed, "aggregated"),
    law=as_printed,
    corrected=_CORRECTED,
    law_corrected=all_grown,
)
