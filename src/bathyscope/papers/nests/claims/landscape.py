"""Proposition 1 and theorem 2: curvature of the risk in the prediction weights."""

from collections.abc import Iterable
from copy import deepcopy

import torch
from torch import nn

from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonObject
from bathyscope.papers.nests.claims.assumptions import A1, A3, A4
from bathyscope.papers.nests.claims.problems import (
    ROOMY,
    assumptions_of,
    certificate_of,
    local_minimum,
    network_and_pair,
    prediction_parameters,
    saddle,
)


def measure_landscape(
    seed: int,
    *,
    model: nn.Module | None = None,
    data: Iterable[object] | None = None,
    width: int = ROOMY,
) -> Measured:
    """Curvatures at zero prediction weights, at a constructed saddle and at a local minimum."""
    network, pair = network_and_pair(model, data, seed=seed, width=width)
    if not pair[1].is_floating_point():
        raise UsageError("This claim speaks of the squared loss: give targets that are numbers.")
    zero = deepcopy(network)
    with torch.no_grad():
        for parameter in prediction_parameters(zero):
            parameter.zero_()
    minimum, reached = local_minimum(network, pair, seed=seed)
    locations = {"zero": zero, "saddle": saddle(network, pair), "minimum": minimum}
    numbers: JsonObject = {"outputs": network.output.out_features}
    result = None
    for name, location in locations.items():
        result = certificate_of(location, pair)
        point = result.critical_point
        assert point is not None
        numbers[name] = {
            "kind": point.kind,
            "gradient": point.gradient_norm,
            "smallest_curvature": point.smallest_curvature,
            "largest_curvature": point.largest_curvature,
            "drop": point.drop,
            "output_rank": point.output_rank,
            "epsilon": result.epsilon,
        }
    assert result is not None
    return Measured(
        numbers=numbers,
        assumptions=(*assumptions_of(result, 1, 3, 4), reached),
        settings={"width": width, "loss": result.loss},
    )


def measure_proposition_1(
    seed: int,
    *,
    model: nn.Module | None = None,
    data: Iterable[object] | None = None,
    width: int = 8,
) -> Measured:
    """The same; of the numbered assumptions only the first is needed."""
    result = measure_landscape(seed, model=model, data=data, width=width)
    needed = tuple(
        a
        for a in result.assumptions
        if not a.statement.startswith(("Assumption 3", "Assumption 4"))
    )
    return Measured(numbers=result.numbers, assumptions=needed, settings=result.settings)


def proposition_1(numbers: Numbers) -> list[Relation]:
    """Curvatures of both signs; an upward one at every critical point, so that none is a maximum."""
    zero = numbers["zero"]
    return [
        at_most("zero: smallest curvature", zero["smallest_curvature"], -1e-6),
        at_least("zero: largest curvature", zero["largest_curvature"], 1e-6),
        at_least("saddle: largest curvature", numbers["saddle"]["largest_curvature"], 1e-6),
        at_least("minimum: largest curvature", numbers["minimum"]["largest_curvature"], 1e-6),
    ]


PROPOSITION_1 = Claim(
    name="nests.proposition_1",
    statement="With fixed features the squared loss is neither convex nor concave in "
    "(W_L, W_{L+1}), and a critical point that is not a local minimum is a saddle.",
    assumptions=("squared loss", A1),
    tested="Curvatures of both signs at zero prediction weights; an upward curvature at "
    "every critical "
    "point that is found or constructed.",
    measure=measure_proposition_1,
    law=proposition_1,
    takes=("model", "data", "width"),
)


def theorem_2(numbers: Numbers) -> list[Relation]:
    """The saddle has a rank-deficient W_{L+1} and a way down; full rank means a minimum."""
    point, minimum = numbers["saddle"], numbers["minimum"]
    return [
        at_most("saddle: gradient", point["gradient"], 1e-8),
        at_most("saddle: rank of W_{L+1}", point["output_rank"], numbers["outputs"] - 1),
        at_most("saddle: smallest curvature", point["smallest_curvature"], -1e-6),
        at_least("saddle: fall of the risk along that direction", point["drop"], 1e-12),
        at_least("minimum: rank of W_{L+1}", minimum["output_rank"], numbers["outputs"]),
        at_most("critical point with full rank: ε", minimum["epsilon"], 1e-6),
        at_least("minimum: smallest curvature", minimum["smallest_curvature"], 0.0, slack=1e-6),
    ]


THEOREM_2 = Claim(
    name="nests.theorem_2",
    statement="At every saddle point W_{L+1} is rank-deficient, and some direction has "
    "strictly negative curvature.",
    assumptions=("squared loss", A1, A3, A4),
    tested="Saddles with W_{L+1} = 0 are constructed, and critical points with W_{L+1} of "
    "full rank are found: ranks, "
    "curvatures, and the fall of the risk along the direction.",
    measure=measure_landscape,
    law=theorem_2,
    takes=("model", "data", "width"),
)
