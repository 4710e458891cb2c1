"""Section 4, propositions 3 and 4: DenseNEsts against linear predictors, and as wide ResNEsts."""

from collections.abc import Iterable
from copy import deepcopy

import torch
from torch import Tensor, nn

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption
from bathyscope.nets import DenseNEst, dense_to_residual, densenest
from bathyscope.papers.nests.claims.assumptions import A2
from bathyscope.papers.nests.claims.problems import (
    FEATURES,
    INPUTS,
    Loss,
    assumptions_of,
    certificate_of,
    given_pair,
    learn_features_,
    mean_loss,
    minimum_of,
    problem,
)


def _network(outputs: int) -> DenseNEst:
    return densenest(
        INPUTS, outputs, feature_sizes=FEATURES[:3], intercept=False, activation=nn.Tanh
    ).double()


def _given(
    model: nn.Module | None, data: Iterable[object] | None
) -> tuple[DenseNEst, Batch] | None:
    if model is None and data is None:
        return None
    if not isinstance(model, DenseNEst) or data is None:
        raise UsageError(
            "This claim speaks of DenseNEsts (bathyscope.nets.densenest): give one as the model, "
            "and a pair (inputs, targets) as data."
        )
    return deepcopy(model).double(), given_pair(model, data)


def measure_convexity(seed: int) -> Measured:
    """Curvature of (PD_φ) in W_{L+1} at random weights, for two losses, and its minima from two starts."""
    rows: list[JsonObject] = []
    generator = torch.Generator().manual_seed(seed)
    losses: tuple[Loss, ...] = ("squared", "cross_entropy")
    for name in losses:
        outputs = 3 if name == "cross_entropy" else 2
        network, (x, y) = _network(outputs), problem(seed, loss=name, outputs=outputs, samples=200)
        loss = mean_loss(y)
        with torch.no_grad():
            features = torch.cat(network.features(x), dim=1)

        def risk(
            flat: Tensor, features: Tensor = features, y: Tensor = y, loss: LossFn = loss
        ) -> Tensor:
            return loss(features @ flat.view(features.shape[1], -1), y)

        size = features.shape[1] * outputs
        curvature = torch.func.hessian(risk)
        smallest = [
            float(torch.linalg.eigvalsh(curvature(scale * normal(generator, size)))[0])
            for scale in (0.1, 1.0, 3.0)
        ]
        ends = [float(risk(minimum_of(risk, normal(generator, size)))) for _ in range(2)]
        rows.append(
            {
                "case": name,
                "smallest_curvature": min(smallest),
                "gap_of_minima": abs(ends[0] - ends[1]),
                "risk_elsewhere": float(risk(normal(generator, size))) - min(ends),
            }
        )
    return Measured(numbers={"cases": rows})


def convexity(numbers: Numbers) -> list[Relation]:
    """No negative curvature anywhere, and every start ends at one risk."""
    return [
        relation
        for row in numbers["cases"]
        for relation in (
            at_least(
                f"{row['case']}: smallest curvature", row["smallest_curvature"], 0.0, slack=1e-9
            ),
            at_most(f"{row['case']}: risks of two minima differ by", row["gap_of_minima"], 1e-9),
        )
    ]


SECTION_4_CONVEX = Claim(
    name="nests.section_4_convex",
    statement="With fixed features the problem (PD_φ) of a DenseNEst is convex in its one matrix of "
    "prediction weights: features and prediction are not coupled.",
    assumptions=(A2,),
    tested="Smallest eigenvalue of the Hessian in W_{L+1} at random weights of three sizes, for squared and "
    "cross-entropy loss, and the risks at minima from two starts.",
    links=(Link(to="nests.section_2_2_coupling"),),
    measure=measure_convexity,
    law=convexity,
)


def measure_proposition_3(
    seed: int,
    *,
    model: nn.Module | None = None,
    data: Iterable[object] | None = None,
    train: bool = True,
) -> Measured:
    """Risks of DenseNEsts brought to a local minimum, and of the best linear predictor.

    All weights are trained, then the prediction weights alone, which are part of any local
    minimum. With `train` False the network stays as drawn, which breaks the assumption.
    """
    given = _given(model, data)
    cases: list[tuple[str, DenseNEst, Batch]] = []
    if given is not None:
        cases.append(("given", *given))
    else:
        losses: tuple[Loss, ...] = ("squared", "cross_entropy")
        for loss in losses:
            outputs = 3 if loss == "cross_entropy" else 2
            cases.append(
                (loss, _network(outputs), problem(seed, loss=loss, outputs=outputs, samples=200))
            )
    rows: list[JsonObject] = []
    assumptions: list[Assumption] = []
    for name, network, pair in cases:
        if train:
            learn_features_(network, pair, steps=10)
            _solve_output_(network, pair)
        result = certificate_of(network, pair)
        assert result.epsilon is not None
        assert result.bound is not None
        assert result.linear_feature_risk is not None
        rows.append(
            {
                "case": name,
                "risk": (result.risk + result.penalty) / result.constant_risk,
                "linear": result.linear_feature_risk / result.constant_risk,
            }
        )
        assumptions += [
            *assumptions_of(result, 2),
            Assumption(
                statement=f"{name}: the prediction weights are at their minimum (ε)",
                holds=result.epsilon <= 1e-6 * result.constant_risk,
                value=result.epsilon,
            ),
        ]
    return Measured(numbers={"cases": rows}, assumptions=tuple(assumptions))


def _solve_output_(network: DenseNEst, pair: Batch) -> None:
    """Bring W_{L+1}, and its bias where there is one, to the minimum of their convex problem."""
    x, y = pair
    loss = mean_loss(y)
    with torch.no_grad():
        features = torch.cat(network.features(x), dim=1)  # the constant comes after the input
    outputs = network.output.out_features
    start = torch.zeros(outputs * features.shape[1], dtype=torch.float64)
    result = minimum_of(lambda flat: loss(features @ flat.view(-1, outputs), y), start)
    weights = result.view(-1, outputs).T
    with torch.no_grad():
        if network.output.bias is not None:
            location = network.feature_sizes[0]
            network.output.bias.copy_(weights[:, location])
            weights = torch.cat([weights[:, :location], weights[:, location + 1 :]], dim=1)
        network.output.weight.copy_(weights)


def proposition_3(numbers: Numbers) -> list[Relation]:
    """No worse than linear."""
    return [
        at_most(
            f"{row['case']}: risk against the best linear", row["risk"], row["linear"], slack=1e-6
        )
        for row in numbers["cases"]
    ]


PROPOSITION_3 = Claim(
    name="nests.proposition_3",
    statement="A local minimum of a DenseNEst is no worse than the best linear predictor.",
    assumptions=(A2,),
    tested="Risks of DenseNEsts trained to a local minimum in all their weights, for two losses.",
    links=(Link(to="nests.held_out", check="training risk"),),
    measure=measure_proposition_3,
    law=proposition_3,
    takes=("model", "data", "train"),
)


def measure_proposition_4(
    seed: int, *, model: nn.Module | None = None, data: Iterable[object] | None = None
) -> Measured:
    """Outputs of a DenseNEst and of its ResNEst; assumption 4 and the smallest ε of the latter."""
    given = _given(model, data)
    network, pair = given if given is not None else (_network(2), problem(seed))
    wide = dense_to_residual(network)
    with torch.no_grad():
        difference = float((wide(pair[0]) - network(pair[0])).abs().max())
        wide.blocks[0].mix.weight.mul_(2)  # type: ignore[operator]
        spoilt = float((wide(pair[0]) - network(pair[0])).abs().max())
    result = certificate_of(dense_to_residual(network), pair)
    assert result.attainable_epsilon is not None
    assert result.width is not None
    return Measured(
        numbers={
            "difference": difference,
            "difference_with_a_block_doubled": spoilt,
            "attainable": result.attainable_epsilon / result.constant_risk,
            "rank": result.width.rank,
            "needed": result.width.needed,
            "width": result.width.width,
        }
    )


def proposition_4(numbers: Numbers) -> list[Relation]:
    """Equal outputs, room for all features, and ε = 0 within reach."""
    return [
        at_most("difference of the outputs", numbers["difference"], 1e-10),
        at_least("rank of [W_0 … W_{L−1}]", numbers["rank"], numbers["needed"]),
        at_least("width", numbers["width"], numbers["needed"]),
        at_most("smallest ε over the constant predictor's risk", numbers["attainable"], 1e-9),
    ]


PROPOSITION_4 = Claim(
    name="nests.proposition_4",
    statement="Every DenseNEst is a wide ResNEst with bottleneck blocks, with the same output "
    "everywhere and ε = 0 at its local minima.",
    tested="Outputs of converted networks on random inputs, assumption 4, and the best risk "
    "its "
    "prediction weights can attain against the bound.",
    measure=measure_proposition_4,
    law=proposition_4,
    takes=("model", "data"),
)
