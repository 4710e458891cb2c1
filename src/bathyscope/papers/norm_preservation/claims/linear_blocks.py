"""Theorem 2, lemma 3 and equations 3 and 10: a linear map as many residual blocks near the identity."""

import math

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import expm, logm
from torch import Tensor

from bathyscope import measure, nets
from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.draws import half_squares, normal
from bathyscope.claims.reading import linear_layers, numbers_of
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption
from bathyscope.linalg import polar_factor
from bathyscope.nets import Network

_SIZE = 6
_BLOCKS = (32, 64)


def gamma_of(R: Float[Tensor, " n n"]) -> float:
    """γ = max(|log σ_max(R)|, |log σ_min(R)|)."""
    return float(torch.linalg.svdvals(R).log().abs().max())


def constant_of(gamma: float) -> float:
    """c = 2(√π + √(3γ))²."""
    return 2 * (math.sqrt(math.pi) + math.sqrt(3 * gamma)) ** 2


def residual_factors(R: Float[Tensor, " n n"], num_blocks: int) -> list[Float[Tensor, " n n"]]:
    """W_1, …, W_L with (I + W_L) ⋯ (I + W_1) = R, as near to zero as rotation and stretch allow.

    R = Q S, Q orthogonal and S positive; blocks are equal fractional powers of S, then of Q,
    divided among them as √(3γ) to √π. Where det R < 0, the first block is a reflection.

    Raises:
        UsageError: fewer than three blocks, too few for the three kinds.
    """
    if num_blocks < 3:
        raise UsageError(f"The construction needs three blocks at least, not {num_blocks}.")
    eye = torch.eye(len(R), dtype=torch.float64)
    Q = polar_factor(R)
    S = Q.T @ R
    factors = []
    if torch.linalg.det(R) < 0:
        mirror = eye.clone()
        mirror[0, 0] = -1
        S = mirror @ S @ mirror  # R = (Q M)(M S M) M
        Q = Q @ mirror
        factors.append(mirror)
    left = num_blocks - len(factors)
    turn = math.sqrt(math.pi) / (math.sqrt(math.pi) + math.sqrt(3 * gamma_of(R)))
    rotations = min(left - 1, max(1, round(left * turn)))
    factors += [_root(S, left - rotations)] * (left - rotations)
    factors += [_root(Q, rotations)] * rotations
    return [factor - eye for factor in factors]


def _root(matrix: Float[Tensor, " n n"], power: int) -> Float[Tensor, " n n"]:
    logarithm = np.real(logm(matrix.numpy()))
    return torch.from_numpy(expm(logarithm / power))


def linear_network(weights: list[Float[Tensor, " n n"]]) -> Network:
    """The linear residual network with these weights."""
    network = nets.build(f"nshortcut-{len(weights)}-1", width=len(weights[0])).double()
    with torch.no_grad():
        for block, weight in zip(network.blocks, weights, strict=True):
            linear_layers(block)[0].weight.copy_(weight)
    assert isinstance(network, Network)
    return network


def _map(generator: torch.Generator, sign: int) -> Float[Tensor, " n n"]:
    R = normal(generator, _SIZE, _SIZE)
    if float(torch.linalg.det(R)) * sign < 0:
        R[0] = -R[0]
    return R


def measure_blocks(seed: int, *, blocks: tuple[int, ...] = _BLOCKS) -> Measured:
    """Gradient ratios and weights of networks that are one linear map, for both signs of det R."""
    generator = torch.Generator().manual_seed(seed)
    cases: list[dict[str, object]] = []
    for sign in (1, -1):
        R = _map(generator, sign)
        gamma = gamma_of(R)
        x = normal(generator, 64, _SIZE)
        y = x @ R.T + normal(generator, 64, _SIZE)
        for num_blocks in blocks:
            weights = residual_factors(R, num_blocks)
            network = linear_network(weights)
            result = measure.gradients(network, (x, y), loss=half_squares)
            norms = zip(numbers_of(result, "norm_in"), numbers_of(result, "norm_out"), strict=True)
            ratios = [before / after for before, after in norms]
            with torch.no_grad():
                error = float((network(x) - x @ R.T).abs().max())
            cases.append(
                {
                    "det_sign": sign,
                    "blocks": num_blocks,
                    "gamma": gamma,
                    "delta": constant_of(gamma) / num_blocks,
                    "smallest_ratio": min(ratios),
                    "largest_ratio": max(ratios),
                    "map_error": error,
                }
            )
    return Measured(
        numbers={"cases": cases}, assumptions=_deep_enough(cases), settings={"size": _SIZE}
    )


def _deep_enough(cases: list[JsonObject]) -> tuple[Assumption]:
    room = min(case["blocks"] - 3 * case["gamma"] for case in cases)
    return (Assumption(statement="L ≥ 3γ (L − 3γ)", holds=room >= 0, value=room),)


def theorem_2(numbers: Numbers) -> list[Relation]:
    """The map is met, and every block's ratio lies within 1 ± c/L, for either sign of det R."""
    result = []
    for case in numbers["cases"]:
        name = f"L = {case['blocks']}, det {'>' if case['det_sign'] > 0 else '<'} 0"
        result += [
            at_most(f"{name}: error of the map", case["map_error"], 1e-8),
            at_least(f"{name}: smallest ratio", case["smallest_ratio"], 1 - case["delta"]),
            at_most(f"{name}: largest ratio", case["largest_ratio"], 1 + case["delta"]),
        ]
    return result


THEOREM_2 = Claim(
    name="norm_preservation.theorem_2",
    statement="A linear map R has a global optimum of L linear residual blocks that change "
    "gradient norms by no more than 1 ± c/L, c = 2(√π + √(3γ))², for L ≥ 3γ.",
    assumptions=("L ≥ 3γ, γ the largest |log σ(R)|",),
    tested="The blocks are built by fractional powers of rotation and stretch (and one "
    "reflection where det R < 0), put into a network, and gradient-norm ratios measured.",
    measure=measure_blocks,
    law=theorem_2,
    takes=("blocks",),
)


def lemma_3(numbers: Numbers) -> list[Relation]:
    """Every weight is small, for either sign of det R."""
    return [_small(case) for case in numbers["cases"]]


def lemma_3_positive(numbers: Numbers) -> list[Relation]:
    """Every weight is small where det R > 0; elsewhere one of them must have norm 1 at least."""
    return [
        _small(case)
        if case["det_sign"] > 0
        else at_least(f"L = {case['blocks']}, det < 0: σ_max(W)", case["largest_weight"], 1.0)
        for case in numbers["cases"]
    ]


def _small(case: JsonObject) -> Relation:
    sign = ">" if case["det_sign"] > 0 else "<"
    return at_most(
        f"L = {case['blocks']}, det {sign} 0: σ_max(W)", case["largest_weight"], case["delta"]
    )


def measure_weights(seed: int, *, blocks: tuple[int, ...] = (32, 128, 512)) -> Measured:
    """The largest weight of the construction, for both signs of det R."""
    generator = torch.Generator().manual_seed(seed)
    cases: list[dict[str, object]] = []
    for sign in (1, -1):
        R = _map(generator, sign)
        for num_blocks in blocks:
            weights = torch.stack(residual_factors(R, num_blocks))
            cases.append(
                {
                    "det_sign": sign,
                    "blocks": num_blocks,
                    "gamma": gamma_of(R),
                    "delta": constant_of(gamma_of(R)) / num_blocks,
                    "largest_weight": float(torch.linalg.matrix_norm(weights, 2).max()),
                }
            )
    return Measured(numbers={"cases": cases}, assumptions=_deep_enough(cases))


LEMMA_3 = Claim(
    name="norm_preservation.lemma_3",
    statement="A linear map R has a global optimum of L linear residual blocks with "
    "σ_max(W_l) ≤ 2(√π + √(3γ))²/L.",
    assumptions=("L ≥ 3γ",),
    tested="The blocks of theorem 2's construction, for maps with det R > 0 and det R < 0.",
    measure=measure_weights,
    law=lemma_3,
    under="det R > 0: if all σ_max(W_l) < 1, every I + W_l has a positive determinant, and so has "
    "their product",
    law_under=lemma_3_positive,
    takes=("blocks",),
)


def measure_form(seed: int) -> Measured:
    """Output and first gradient of a linear residual network, and the products they should be."""
    generator = torch.Generator().manual_seed(seed)
    weights = [0.3 * normal(generator, _SIZE, _SIZE) for _ in range(5)]
    network = linear_network(weights)
    x, back = normal(generator, 8, _SIZE), normal(generator, 8, _SIZE)
    x.requires_grad_()
    out = network(x)
    (gradient,) = torch.autograd.grad(out, x, back)
    eye = torch.eye(_SIZE, dtype=torch.float64)
    product, plain = eye, eye
    for weight in weights:
        product, plain = (eye + weight) @ product, weight @ plain
    forward, backward = x.detach() @ product.T, back @ product
    return Measured(
        numbers={
            "output_error": float((out.detach() - forward).abs().max()),
            "gradient_error": float((gradient - backward).abs().max()),
            "output_error_without_identity": float(
                (out.detach() - x.detach() @ plain.T).abs().max()
            ),
            "gradient_error_without_transpose": float((gradient - back @ product.T).abs().max()),
        }
    )


def equation_3(numbers: Numbers) -> list[Relation]:
    """The output is the product's."""
    return [at_most("difference of the outputs", numbers["output_error"], 1e-9)]


def equation_10(numbers: Numbers) -> list[Relation]:
    """The gradient comes back through I + Wᵀ."""
    return [at_most("difference of the gradients", numbers["gradient_error"], 1e-9)]


EQUATION_3 = Claim(
    name="norm_preservation.equation_3",
    statement="A linear residual network is the map y = ∏_l (I + W_l) x (with equation 2).",
    tested="The output of a network against the product of its matrices.",
    definition="an identity of the implementation",
    measure=measure_form,
    law=equation_3,
)
EQUATION_10 = Claim(
    name="norm_preservation.equation_10",
    statement="The gradient at the input of a linear residual block is (I + Wᵀ) times that "
    "at its output.",
    tested="Automatic differentiation through a network against the product.",
    definition="an identity of the implementation",
    measure=measure_form,
    law=equation_10,
)
