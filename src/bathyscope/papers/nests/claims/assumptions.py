"""The assumptions of the theme `nests`, how often they hold, and a remark that is not tested."""

import torch
from torch import nn

from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.batch import Batch

A1 = "assumption 1: Σ v_L yᵀ ≠ 0, and Σ v_L v_Lᵀ has full rank"
A2 = "assumption 2: the loss is differentiable and convex"
A3 = "assumption 3: M ≥ N_o"
A4 = "assumption 4: [W_0 … W_{L−1}] has full column rank"
_DRAWS = 5


def measure_assumption_1(seed: int) -> Measured:
    """Networks as drawn, one whose last feature is dead, and the same with that feature perturbed."""
    from bathyscope.papers.nests.claims.problems import ROOMY, certificate_of, estimator, problem

    def holds(network: nn.Module, pair: Batch) -> bool:
        result = certificate_of(network, pair).assumption(1)
        return result is not None and result.holds

    pair = problem(seed)
    drawn = sum(holds(estimator(width=ROOMY), problem(seed + i)) for i in range(_DRAWS))
    dead = estimator(width=ROOMY)
    with torch.no_grad():
        parameters = list(dead.blocks[-1].function.parameters())
        for parameter in parameters:
            parameter.zero_()
        before = holds(dead, pair)
        for parameter in parameters:
            parameter.normal_(std=1e-3)
    return Measured(
        numbers={"drawn": drawn, "of": _DRAWS, "dead": before, "perturbed": holds(dead, pair)}
    )


def assumption_1(numbers: Numbers) -> list[Relation]:
    """As drawn, and after a small perturbation where it failed."""
    return [
        at_least("networks as drawn that satisfy it", numbers["drawn"], numbers["of"]),
        at_most("with a dead feature", numbers["dead"], 0),
        at_least("the same, perturbed by 1e-3", numbers["perturbed"], 1),
    ]


ASSUMPTION_1 = Claim(
    name="nests.assumption_1",
    statement="The last feature is correlated with the targets and its second moments have full "
    "rank; where not, the weights can be perturbed such that they are.",
    tested="Random networks, one whose last feature is zero, and the same after a perturbation.",
    measure=measure_assumption_1,
    law=assumption_1,
)
ASSUMPTION_2 = Claim(
    name="nests.assumption_2",
    statement="The loss is differentiable and convex in the prediction.",
    tested="A condition: every claim that needs it tests the loss along segments. It asserts nothing.",
)
ASSUMPTION_3 = Claim(
    name="nests.assumption_3",
    statement="The residual representation is no narrower than the output: M ≥ N_o.",
    tested="A condition on sizes, evaluated by every claim that needs it; it asserts nothing.",
)


def measure_assumption_4(seed: int) -> Measured:
    """Ranks of networks with just enough room, as drawn and after training all weights."""
    from bathyscope.papers.nests.claims.problems import (
        ENOUGH,
        certificate_of,
        estimator,
        learn_features_,
        problem,
    )

    passed = {"drawn": 0, "trained": 0}
    for draw in range(_DRAWS):
        pair, network = problem(seed + draw), estimator(width=ENOUGH)
        for moment in passed:
            result = certificate_of(network, pair).assumption(4)
            passed[moment] += result is not None and result.holds
            learn_features_(network, pair)
    return Measured(numbers={**passed, "of": _DRAWS}, settings={"width": ENOUGH})


def assumption_4(numbers: Numbers) -> list[Relation]:
    """Always, before and after training."""
    return [
        at_least(f"networks as {moment} that satisfy it", numbers[moment], numbers["of"])
        for moment in ("drawn", "trained")
    ]


ASSUMPTION_4 = Claim(
    name="nests.assumption_4",
    statement="The features can be recovered from the residual representation; under the bottleneck "
    "condition this is always so in experiments, at the start and after training.",
    tested="Five networks with M = Σ K_i, i < L, as drawn and after quasi-Newton steps in all weights.",
    measure=measure_assumption_4,
    law=assumption_4,
    empirical=True,
)


REMARK_1 = Claim(
    name="nests.remark_1",
    statement="Every local minimum of the whole problem is one of the problem with fixed "
    "features, so that what is true of all of the latter is true of the former.",
    tested="A remark on sets: it follows from the definition of a local minimum, and there "
    "is nothing to measure.",
)
