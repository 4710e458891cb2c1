"""Section 2.2: prediction weights that also make features, and proposition 1 for the whole problem."""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.nets import ResNEst
from bathyscope.papers.nests.claims.assumptions import A1
from bathyscope.papers.nests.claims.problems import (
    Pair,
    assumptions_of,
    certificate_of,
    estimator,
    mean_loss,
    prediction_parameters,
    problem,
)

_NARROW = 8
_EXACT = 1e-12


@torch.no_grad()
def measure_coupling(seed: int) -> Measured:
    """How far each feature moves when one W_i is perturbed; and ε where M is too small for all."""
    network, (x, y) = estimator(width=_NARROW), problem(seed)
    generator = torch.Generator().manual_seed(seed)
    expansion = network.expansion
    assert isinstance(expansion, nn.Linear)
    weights = [expansion.weight, *(block.mix.weight for block in network.blocks)]
    before = network.features(x)
    earlier, later, prediction = 0.0, float("inf"), 0.0
    for index, weight in enumerate([*weights, network.output.weight]):
        assert isinstance(weight, Tensor)
        kept = weight.clone()
        weight.add_(0.1 * normal(generator, *weight.shape))
        moved = [
            float((a - b).norm() / b.norm())
            for a, b in zip(network.features(x), before, strict=True)
        ]
        weight.copy_(kept)
        if index >= len(weights) - 1:  # W_L and W_{L+1}
            prediction = max(prediction, *moved)
            continue
        earlier = max(earlier, *moved[: index + 1])
        later = min(later, *moved[index + 1 :])
    narrow = certificate_of(network, (x, y))
    assert narrow.attainable_epsilon is not None
    return Measured(
        numbers={
            "earlier_features": earlier,
            "later_features": later,
            "by_prediction_weights": prediction,
            "handicap": narrow.attainable_epsilon / narrow.constant_risk,
        },
        settings={"width": _NARROW, "perturbation": 0.1},
    )


def coupling(numbers: Numbers) -> list[Relation]:
    """W_i makes all later features and none before; only W_L and W_{L+1} make none; it costs risk."""
    return [
        at_least("W_i, i < L: smallest move of a later feature", numbers["later_features"], 1e-3),
        at_most("W_i: largest move of v_0, …, v_i", numbers["earlier_features"], _EXACT),
        at_most("W_L and W_{L+1}: move of any feature", numbers["by_prediction_weights"], _EXACT),
        at_least("risk lost to it at M = 8, over the constant's", numbers["handicap"], 1e-3),
    ]


SECTION_2_2_COUPLING = Claim(
    name="nests.section_2_2_coupling",
    statement="In a ResNEst the weights W_i that predict from feature i also make the later features, so "
    "that only W_L and W_{L+1} can be fitted with the features held; this coupling can cost performance.",
    tested="Every W_i is perturbed by turns, and the move of each feature measured; the risk that "
    "prediction weights cannot reach at a width below the bottleneck condition.",
    links=(Link(to="nests.bottleneck"), Link(to="nests.proposition_2")),
    measure=measure_coupling,
    law=coupling,
)


def measure_whole_problem(seed: int) -> Measured:
    """Eigenvalues of the Hessian in all weights of a small ResNEst, where W_L and W_{L+1} are zero."""
    network = estimator(width=6, features=(3, 3))
    pair = problem(seed)
    with torch.no_grad():
        for parameter in prediction_parameters(network):
            parameter.zero_()
    values = torch.linalg.eigvalsh(_whole_hessian(network, pair))
    trained = deepcopy(network)
    with torch.no_grad():
        for parameter in prediction_parameters(trained):
            parameter.normal_(std=0.3)
    elsewhere = torch.linalg.eigvalsh(_whole_hessian(trained, pair))
    return Measured(
        numbers={
            "smallest": float(values[0]),
            "largest": float(values[-1]),
            "smallest_elsewhere": float(elsewhere[0]),
            "largest_elsewhere": float(elsewhere[-1]),
            "parameters": len(values),
        },
        assumptions=assumptions_of(certificate_of(network, pair), 1),
        settings={"width": 6, "features": (3, 3)},
    )


def _whole_hessian(network: ResNEst, pair: Pair) -> Tensor:
    """∂²R/∂w∂w in all weights, features too."""
    x, y = pair
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    shapes = {name: p.shape for name, p in parameters.items()}
    sizes = [shape.numel() for shape in shapes.values()]
    loss = mean_loss(y)

    def risk(flat: Tensor) -> Tensor:
        parts = zip(shapes.items(), flat.split(sizes), strict=True)
        return loss(functional_call(network, {n: v.view(s) for (n, s), v in parts}, (x,)), y)

    result: Tensor = hessian(risk)(torch.cat([p.flatten() for p in parameters.values()]))
    return result


def whole_problem(numbers: Numbers) -> list[Relation]:
    """The Hessian of the whole problem is indefinite at the point that the paper names."""
    return [
        at_most("smallest eigenvalue, W_L = W_{L+1} = 0", numbers["smallest"], -1e-6),
        at_least("largest eigenvalue, W_L = W_{L+1} = 0", numbers["largest"], 1e-6),
    ]


def indefinite_elsewhere(numbers: Numbers) -> list[Relation]:
    """At random prediction weights too."""
    return [
        at_most("smallest eigenvalue, random weights", numbers["smallest_elsewhere"], -1e-6),
        at_least("largest eigenvalue, random weights", numbers["largest_elsewhere"], 1e-6),
    ]


SECTION_2_2_WHOLE = Claim(
    name="nests.section_2_2_whole",
    statement="Proposition 1 extends to the problem (P) in all weights: where assumption 1 holds for one "
    "set of features, its objective is neither convex nor concave.",
    assumptions=("squared loss", A1),
    tested="Extreme eigenvalues of the Hessian in all weights, features too, with W_L = W_{L+1} = 0; beside "
    "it, as a stricter reading, at random prediction weights.",
    links=(Link(to="nests.proposition_1"),),
    measure=measure_whole_problem,
    law=whole_problem,
    law_strict=indefinite_elsewhere,
)
