"""Proposition 2, theorem 1 and section 3.2: the lower bound, and when every local minimum attains it."""

from collections.abc import Iterable

import torch
from torch import nn

from bathyscope.certificates import certify, mixing_matrix
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption
from bathyscope.nets import ResNEst
from bathyscope.papers.nests.claims.assumptions import A2, A3, A4
from bathyscope.papers.nests.claims.problems import (
    ENOUGH,
    FEATURES,
    ROOMY,
    Loss,
    Pair,
    assumptions_of,
    certificate_of,
    estimator,
    local_minimum,
    network_and_pair,
    problem,
)

_STARTS = 2
_ATTAINED = 1e-6  # of the constant predictor's risk: what L-BFGS leaves


def measure_proposition_2(
    seed: int, *, model: nn.Module | None = None, data: Iterable[object] | None = None
) -> Measured:
    """ε at random weights and at local minima, and the convexity of the augmented problem."""
    cases: list[tuple[str, ResNEst, Pair]] = []
    if model is not None or data is not None:
        cases.append(("given", *network_and_pair(model, data, seed=seed, width=ROOMY)))
    else:
        losses: tuple[Loss, ...] = ("squared", "cross_entropy")
        for loss in losses:
            outputs = 3 if loss == "cross_entropy" else 2
            for width in (8, 12):
                pair = problem(seed, loss=loss, outputs=outputs)
                cases.append(
                    (f"{loss}, M = {width}", estimator(width=width, outputs=outputs), pair)
                )
    rows: list[dict[str, object]] = []
    assumptions: list[Assumption] = []
    for name, network, pair in cases:
        drawn = certificate_of(network, pair)
        minimum, reached = local_minimum(network, pair, seed=seed)
        result = certificate_of(minimum, pair)
        assert drawn.epsilon is not None
        assert result.epsilon is not None
        rows.append(
            {
                "case": name,
                "drawn": drawn.epsilon / drawn.constant_risk,
                "local_minimum": result.epsilon / result.constant_risk,
                "chord": _chord_violation(network, pair, seed=seed),
            }
        )
        assumptions += [*assumptions_of(result, 2), reached]
    return Measured(numbers={"cases": rows}, assumptions=tuple(assumptions))


def _chord_violation(network: ResNEst, pair: Pair, *, seed: int) -> float:
    """Largest excess of the augmented risk over the chord between two random H, at the middle."""
    generator = torch.Generator().manual_seed(seed)
    x, y = pair
    features = torch.cat(network.features(x), dim=1).detach()
    loss = nn.functional.mse_loss if y.is_floating_point() else nn.functional.cross_entropy
    outputs = network.output.out_features
    worst = -float("inf")
    for _ in range(20):
        first, second = (normal(generator, features.shape[1], outputs) for _ in range(2))
        ends = [float(loss(features @ H, y)) for H in (first, second)]
        middle = float(loss(features @ ((first + second) / 2), y))
        worst = max(worst, middle - sum(ends) / 2)
    return worst


def proposition_2(numbers: Numbers) -> list[Relation]:
    """ε ≥ 0, and no chord is exceeded."""
    result = []
    for row in numbers["cases"]:
        result += [
            at_least(f"{row['case']}, as drawn: ε", row["drawn"], 0.0, slack=1e-9),
            at_least(f"{row['case']}, local minimum: ε", row["local_minimum"], 0.0, slack=1e-9),
            at_most(f"{row['case']}: excess over a chord", row["chord"], 0.0, slack=1e-9),
        ]
    return result


PROPOSITION_2 = Claim(
    name="nests.proposition_2",
    formula=r"\varepsilon = \mathcal R(W_L, W_{L+1}; \phi) - \min_{H}\mathcal A(H;\phi) \ge 0",
    statement="With fixed features the augmented problem is convex, and its minimum is a lower "
    "bound for every local minimum of the ResNEst: ε ≥ 0 (equation 6).",
    assumptions=(A2,),
    tested="ε of ResNEsts as drawn and at local minima, for two widths, squared and "
    "cross-entropy loss; the augmented risk along chords of prediction weights.",
    links=(
        Link(
            to="nests.convolutional",
            check="A-ResNEst ends at no greater",
            difference="the study compares networks that were trained apart and are not at local minima",
        ),
    ),
    measure=measure_proposition_2,
    law=proposition_2,
    takes=("model", "data"),
)


def measure_theorem_1(
    seed: int,
    *,
    model: nn.Module | None = None,
    data: Iterable[object] | None = None,
    width: int = ROOMY,
) -> Measured:
    """ε, as a fraction of the constant predictor's risk, at local minima from several starts."""
    network, pair = network_and_pair(model, data, seed=seed, width=width)
    rows: list[dict[str, object]] = []
    critical = []
    result = None
    for start in range(_STARTS):
        minimum, reached = local_minimum(network, pair, seed=_STARTS * seed + start)
        critical.append(reached)
        result = certify(minimum, pair, blocks=False)
        assert result.epsilon is not None
        assert result.critical_point is not None
        rows.append(
            {
                "epsilon": result.epsilon / result.constant_risk,
                "gradient": result.critical_point.gradient_norm,
                "output_rank": result.critical_point.output_rank,
            }
        )
    assert result is not None
    assert result.linear_feature_risk is not None
    assert result.attainable_epsilon is not None
    assert result.bound is not None
    numbers: JsonObject = {
        "minima": rows,
        "attainable": result.attainable_epsilon / result.constant_risk,
        "linear_epsilon": (result.linear_feature_risk - result.bound) / result.constant_risk,
    }
    if model is None:
        numbers["attainable_by_width"] = {
            m: _attainable(m, pair) for m in (8, 12, ENOUGH - 1, ENOUGH, 30)
        }
    return Measured(
        numbers=numbers,
        assumptions=(*assumptions_of(result, 2, 3, 4), *critical),
        settings={"width": width, "needed": ENOUGH},
    )


def _attainable(width: int, pair: Pair) -> float:
    """The smallest ε that prediction weights of a random network of that width can reach."""
    result = certificate_of(estimator(width=width), pair)
    assert result.attainable_epsilon is not None
    return result.attainable_epsilon / result.constant_risk


def theorem_1(numbers: Numbers) -> list[Relation]:
    """ε = 0 at every local minimum."""
    return [
        *(
            at_most(f"start {i}: ε over the constant predictor's risk", row["epsilon"], _ATTAINED)
            for i, row in enumerate(numbers["minima"])
        ),
        at_most("smallest ε of the prediction weights", numbers["attainable"], _ATTAINED),
    ]


THEOREM_1 = Claim(
    name="nests.theorem_1",
    formula=r"\varepsilon = 0 \text{ at every local minimum, if } [W_0\,\dots\,W_{L-1}] \text{ has"
    r" full column rank}",
    statement="With fixed features every critical point with W_{L+1} of full rank is a global "
    "minimum, and ε = 0 at every local minimum.",
    assumptions=(A2, A3, A4),
    tested="ε at local minima found from several starts, at widths from just enough up; "
    "widths below are reported "
    "beside them.",
    links=(Link(to="nests.bottleneck"),),
    measure=measure_theorem_1,
    law=theorem_1,
    takes=("model", "data", "width"),
)


@torch.no_grad()
def measure_section_3_2(seed: int) -> Measured:
    """Ranks of [W_0 … W_{L−1}] of networks as drawn, and of one whose blocks share a direction."""
    ranks = {"enough": [], "one_less": []}  # type: dict[str, list[int]]
    for _ in range(10):
        for name, width in (("enough", ENOUGH), ("one_less", ENOUGH - 1)):
            ranks[name].append(_rank(estimator(width=width)))
    shared = estimator(width=30)
    first, second = (block.mix for block in shared.blocks[:2])
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    second.weight[:, 0] = first.weight[:, 0]
    return Measured(
        numbers={
            "needed": ENOUGH,
            "smallest_rank_with_room": min(ranks["enough"]),
            "largest_rank_without": max(ranks["one_less"]),
            "rank_of_shared": _rank(shared),
        },
        settings={"draws": 10, "feature sizes": FEATURES},
    )


def _rank(network: ResNEst) -> int:
    matrix = mixing_matrix(network)
    assert matrix is not None
    return int(torch.linalg.matrix_rank(matrix))


def section_3_2(numbers: Numbers) -> list[Relation]:
    """Room for all features is enough, for every network."""
    return [
        equal("rank with just enough room", numbers["smallest_rank_with_room"], numbers["needed"]),
        equal(
            "rank with room and a shared direction", numbers["rank_of_shared"], numbers["needed"]
        ),
    ]


def section_3_2_drawn(numbers: Numbers) -> list[Relation]:
    """It is for networks as drawn, and it is needed; a shared direction defeats it."""
    return [
        equal("rank with just enough room", numbers["smallest_rank_with_room"], numbers["needed"]),
        at_most("rank with one less", numbers["largest_rank_without"], numbers["needed"] - 1),
        at_most(
            "rank with room and a shared direction",
            numbers["rank_of_shared"],
            numbers["needed"] - 1,
        ),
    ]


SECTION_3_2 = Claim(
    name="nests.section_3_2",
    formula=r"M \ge \sum_{i=0}^{L-1} K_i",
    statement="The bottleneck condition M ≥ Σ_{i<L} K_i is enough for assumption 4.",
    tested="Ranks of [W_0 … W_{L−1}] of random networks with just enough room and with less; "
    "and of one with room whose blocks share a direction.",
    measure=measure_section_3_2,
    law=section_3_2,
    under="the columns of W_0, …, W_{L−1} are in general position, as drawn ones are: the condition is "
    "necessary, not sufficient",
    law_under=section_3_2_drawn,
)
