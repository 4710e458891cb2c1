"""Theorem 1 (i), theorem 1 for other losses, and theorem 2 at saddles with W_{L+1} of every rank."""

from collections.abc import Callable
from copy import deepcopy
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption
from bathyscope.nets import ResNEst
from bathyscope.papers.nests.claims.assumptions import A1, A2, A3, A4
from bathyscope.papers.nests.claims.problems import (
    INPUTS,
    ROOMY,
    Pair,
    assumptions_of,
    certificate_of,
    estimator,
    minimum_of,
    prediction_parameters,
    problem,
)

_OUTPUTS = 3
_SMALL = INPUTS + 3 + 1
_ZERO = 1e-6  # of the constant predictor's risk
_CRITICAL = 1e-8


@torch.no_grad()
def critical_point_(network: ResNEst, pair: Pair, directions: tuple[int, ...]) -> ResNEst:
    """A copy at a critical point of (P_φ) for the squared loss, with W_{L+1} of rank len(directions).

    With f = (x_{L−1}, v_L), U the chosen eigenvectors of what f explains of the targets,
    Σ_yf Σ_ff⁺ Σ_fy, and V the others (Baldi and Hornik 1989):

        W_{L+1} = U C,  (C, A) = the least-squares fit of Uᵀy by (x_{L−1}, v_L),
        W_Lᵀ = −S⁺ T + (1 − S⁺S) Aᵀ (Cᵀ)⁺   with S = Vᵀ Σ y v_Lᵀ, T = Vᵀ Σ y x_{L−1}ᵀ

    so that C W_L = A and Vᵀy is uncorrelated with x_L; both gradients then vanish.
    """
    network = deepcopy(network)
    x, y = pair
    last, feature = network.representations(x)[-2], network.features(x)[-1]
    both = torch.cat([last, feature], dim=1)
    fit = torch.linalg.lstsq(both, y, driver="gelsd").solution  # (M + K, N_o)
    vectors = torch.linalg.eigh(y.T @ (both @ fit)).eigenvectors.flip(1)  # the largest first
    others = [i for i in range(y.shape[1]) if i not in directions]
    U, V = vectors[:, list(directions)], vectors[:, others]
    C, A = (fit @ U).T.split([last.shape[1], feature.shape[1]], dim=1)
    S, T = V.T @ y.T @ feature, V.T @ y.T @ last
    solve = torch.linalg.pinv(S)
    keep = torch.eye(feature.shape[1], dtype=y.dtype, device=y.device) - solve @ S
    mix, output = prediction_parameters(network)[:2]
    mix.copy_((-solve @ T + keep @ A.T @ torch.linalg.pinv(C.T)).T)
    output.copy_(U @ C)
    return network


def measure_critical_points(seed: int) -> Measured:
    """Every critical point that the construction gives for three outputs: eight, of ranks 0 to 3."""
    network, pair = estimator(width=ROOMY, outputs=_OUTPUTS), problem(seed, outputs=_OUTPUTS)
    rows: list[JsonObject] = []
    result = None
    for rank in range(_OUTPUTS + 1):
        for directions in combinations(range(_OUTPUTS), rank):
            result = certificate_of(critical_point_(network, pair, directions), pair)
            point = result.critical_point
            assert point is not None
            assert result.epsilon is not None
            rows.append(
                {
                    "directions": directions,
                    "gradient": point.gradient_norm / result.constant_risk,
                    "output_rank": point.output_rank,
                    "epsilon": result.epsilon / result.constant_risk,
                    "smallest_curvature": point.smallest_curvature,
                }
            )
    assert result is not None
    return Measured(
        numbers={"points": rows, "outputs": _OUTPUTS},
        assumptions=(
            *assumptions_of(result, 1, 2, 3, 4),
            Assumption(
                statement="the constructed points are critical (gradient over the constant's risk)",
                holds=max(row["gradient"] for row in rows) <= _CRITICAL,
                value=max(row["gradient"] for row in rows),
            ),
        ),
        settings={"width": ROOMY, "points": len(rows)},
    )


def full_rank_is_global(numbers: Numbers) -> list[Relation]:
    """ε = 0 where W_{L+1} has full rank, and at none of the points where it has not."""
    return [
        at_most(f"rank {row['output_rank']}, {_names(row)}: ε", row["epsilon"], _ZERO)
        if row["output_rank"] == numbers["outputs"]
        else at_least(f"rank {row['output_rank']}, {_names(row)}: ε", row["epsilon"], 10 * _ZERO)
        for row in numbers["points"]
    ]


def _names(row: Numbers) -> str:
    return f"directions {', '.join(map(str, row['directions'])) or 'none'}"


THEOREM_1_I = Claim(
    name="nests.theorem_1_i",
    statement="A critical point of (P_φ) at which W_{L+1} has full rank is a global minimum (the first part "
    "of theorem 1).",
    assumptions=(A2, A3, A4),
    tested="Critical points of the squared loss are constructed with W_{L+1} of every rank, for every choice "
    "of output directions: ε is zero at those of full rank, and at no other.",
    links=(Link(to="nests.theorem_1"), Link(to="nests.theorem_2")),
    measure=measure_critical_points,
    law=full_rank_is_global,
)


def saddles_of_every_rank(numbers: Numbers) -> list[Relation]:
    """Every critical point that is not a minimum lacks rank, and has a way down."""
    result = []
    for row in numbers["points"]:
        if row["epsilon"] > _ZERO:
            result += [
                at_most(
                    f"{_names(row)}: rank of W_{{L+1}}", row["output_rank"], numbers["outputs"] - 1
                ),
                at_most(f"{_names(row)}: smallest curvature", row["smallest_curvature"], -1e-6),
            ]
    return result


THEOREM_2_RANKS = Claim(
    name="nests.theorem_2_ranks",
    statement="Theorem 2 away from W_{L+1} = 0: saddles at which W_{L+1} has any rank below that of the "
    "output have a direction of strictly negative curvature too.",
    assumptions=("squared loss", A1, A3, A4),
    tested="Rank of W_{L+1} and smallest curvature at constructed critical points of rank 0, 1 and 2 of 3.",
    links=(Link(to="nests.theorem_2"),),
    measure=measure_critical_points,
    law=saddles_of_every_rank,
)

Loss = Callable[[Tensor, Tensor], Tensor]


def _hinge(output: Tensor, target: Tensor) -> Tensor:
    """The smoothed hinge loss of signs: (1 − m)²/2 within one of the margin m, linear beyond it."""
    room = (1 - output * (2 * target - 1)).clamp_min(0)
    return torch.where(room < 1, room.square() / 2, room - 0.5).mean()


_LOSSES: dict[str, Loss] = {
    "huber": F.huber_loss,
    "logistic": F.binary_cross_entropy_with_logits,
    "smoothed hinge": _hinge,
}


def measure_losses(seed: int) -> Measured:
    """ε at local minima of the prediction weights under three convex losses, against (PA_φ)."""
    network = estimator(width=_SMALL, features=(3, 3))
    x, numbers = problem(seed, samples=160)  # many, so that signs are not separable
    with torch.no_grad():
        last, feature = network.representations(x)[-2], network.features(x)[-1]
        basis = torch.cat(network.features(x), dim=1)
        last, feature, basis = (_orthonormal(part) for part in (last, feature, basis))
    rows: list[JsonObject] = []
    gradients = []
    for name, loss in _LOSSES.items():
        y = numbers if name == "huber" else (numbers > 0).double()
        outputs, inside = y.shape[1], feature.shape[1] * last.shape[1]

        def risk(flat: Tensor, loss: Loss = loss, y: Tensor = y, inside: int = inside) -> Tensor:
            mix, out = flat.split([inside, len(flat) - inside])
            x_last = last + feature @ mix.view(feature.shape[1], last.shape[1])
            return loss(x_last @ out.view(last.shape[1], -1), y)

        def augmented(flat: Tensor, loss: Loss = loss, y: Tensor = y) -> Tensor:
            return loss(basis @ flat.view(basis.shape[1], -1), y)

        generator = torch.Generator().manual_seed(seed)
        size = inside + last.shape[1] * outputs
        point = minimum_of(risk, 0.3 * normal(generator, size))
        bound = minimum_of(augmented, torch.zeros(basis.shape[1] * outputs, dtype=y.dtype))
        constant = float(risk(torch.zeros(size, dtype=y.dtype)))
        gradients.append(float(torch.func.grad(risk)(point).norm()) / constant)
        rows.append(
            {"loss": name, "epsilon": float(risk(point) - augmented(bound)) / constant}
            | {"chord": _chord(augmented, generator, basis.shape[1] * outputs)}
        )
    return Measured(
        numbers={"losses": rows},
        assumptions=(
            *assumptions_of(certificate_of(network, (x, numbers)), 3, 4),
            Assumption(
                statement="critical points were found (gradient over the risk at zero)",
                holds=max(gradients) <= 1e-6,
                value=max(gradients),
            ),
        ),
        settings={"width": _SMALL, "features": (3, 3)},
    )


def _orthonormal(features: Tensor) -> Tensor:
    """A basis of the same columns' span: predictions, and so risks, are the same, valleys are round."""
    U, sizes, _ = torch.linalg.svd(features, full_matrices=False)
    result: Tensor = U[:, sizes > 1e-9 * sizes[0]] * len(features) ** 0.5
    return result


def _chord(risk: Callable[[Tensor], Tensor], generator: torch.Generator, size: int) -> float:
    """Largest excess of the risk over the chord between random points, in the middle."""
    worst = -float("inf")
    for _ in range(10):
        ends = normal(generator, 2, size)
        middle = float(risk(ends.mean(dim=0)))
        worst = max(worst, middle - (float(risk(ends[0])) + float(risk(ends[1]))) / 2)
    return worst


def attained_under_all(numbers: Numbers) -> list[Relation]:
    """The bound holds and is attained, and the augmented risk is convex, for each loss."""
    return [
        relation
        for row in numbers["losses"]
        for relation in (
            at_most(f"{row['loss']}: ε over the risk at zero", row["epsilon"], _ZERO),
            at_least(f"{row['loss']}: ε over the risk at zero", row["epsilon"], 0.0, slack=_ZERO),
            at_most(f"{row['loss']}: excess over a chord", row["chord"], 0.0, slack=1e-9),
        )
    ]


THEOREM_1_LOSSES = Claim(
    name="nests.theorem_1_losses",
    statement="Proposition 2 and theorem 1 hold for every loss that is differentiable and convex, among them "
    "the logistic and the smoothed hinge loss.",
    assumptions=(A2, A3, A4),
    tested="ε at a local minimum of (P_φ) under the Huber, the logistic and the smoothed hinge loss, and "
    "chords of the augmented risk.",
    links=(Link(to="nests.theorem_1"), Link(to="nests.proposition_2")),
    measure=measure_losses,
    law=attained_under_all,
)
