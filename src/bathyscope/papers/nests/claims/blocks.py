"""Equation 7, remark 2 and corollaries 1 and 2: what more blocks bring, against fewer and none."""

from collections.abc import Iterable
from itertools import pairwise

import torch
from torch import nn

from bathyscope.certificates import best_predictor, convex_loss, nested_basis
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.records import Assumption
from bathyscope.nets import ResNEst, resnest
from bathyscope.papers.nests.claims.assumptions import A2, A3, A4
from bathyscope.papers.nests.claims.problems import (
    FEATURES,
    INPUTS,
    OUTPUTS,
    ROOMY,
    Pair,
    assumptions_of,
    certificate_of,
    estimator,
    learn_features_,
    local_minimum,
    network_and_pair,
    problem,
)

_SLACK = 1e-6  # of the constant predictor's risk


def measure_equation_7(
    seed: int, *, model: nn.Module | None = None, data: Iterable[object] | None = None
) -> Measured:
    """Largest rise of the risk from block to block, cut off and solved again; and a predictable feature."""
    if model is not None or data is not None:
        networks = [network_and_pair(model, data, seed=seed, width=ROOMY)]
    else:
        networks = [(estimator(width=12), problem(seed + draw)) for draw in range(5)]
    truncated, solved = [], []
    assumptions: list[Assumption] = []
    for network, pair in networks:
        result = certificate_of(network, pair, blocks=True)
        truncated.append(_largest_rise(result.truncated_risks) / result.constant_risk)
        solved.append(_largest_rise(result.block_risks) / result.constant_risk)
        assumptions += assumptions_of(result, 2)
    predictable = _predictable(problem(seed))
    return Measured(
        numbers={
            "largest_rise_tolerance": max(truncated),
            "largest_rise_solved_again": max(solved),
            **predictable,
        },
        assumptions=tuple(assumptions),
    )


def _largest_rise(risks: tuple[float, ...]) -> float:
    return max(after - before for before, after in pairwise(risks))


def _predictable(pair: Pair) -> dict[str, float]:
    """Gains of a network's two features: the first a linear map of the input, the second not."""
    linear = nn.Linear(12, 3, bias=False)
    bent = nn.Sequential(nn.Linear(12, 3), nn.Tanh())
    network = resnest(
        INPUTS, OUTPUTS, width=12, feature_sizes=[3, 3], functions=[linear, bent], intercept=False
    ).double()
    result = certificate_of(network, pair, blocks=True)
    gains = [(b - a) / result.constant_risk for b, a in pairwise(result.block_risks)]
    return {
        "gain_of_predictable": gains[0],
        "gain_of_other": gains[1],
        "unpredicted_of_predictable": result.predictability[1].unpredicted,
    }


def equation_7(numbers: Numbers) -> list[Relation]:
    """Read literally: H of the whole, cut off after block i."""
    return [
        at_most("largest rise, cut off", numbers["largest_rise_tolerance"], 0.0, slack=1e-9),
        _necessity(numbers),
    ]


def equation_7_solved(numbers: Numbers) -> list[Relation]:
    """With H solved again after each block."""
    return [
        at_most(
            "largest rise, solved again", numbers["largest_rise_solved_again"], 0.0, slack=1e-9
        ),
        _necessity(numbers),
    ]


def _necessity(numbers: Numbers) -> Relation:
    return at_most("gain of a predictable feature", numbers["gain_of_predictable"], 0.0, slack=1e-9)


EQUATION_7 = Claim(
    name="nests.equation_7",
    formula=r"\mathcal A(H_0^*,0,\dots,0) \ge \mathcal A(H_0^*,H_1^*,0,\dots,0) \ge \dots \ge "
    r"\mathcal A(H_0^*,\dots,H_L^*)",
    statement="The risk with H_0, …, H_i and zeros after never rises with i, and falls "
    "strictly only if v_i is not linearly predictable from the features before it.",
    assumptions=(A2,),
    tested="Block by block risks of random networks, with the weights of the whole cut off "
    "(the statement read literally) and with weights solved again; a feature that is made "
    "predictable must not lower the risk.",
    links=(Link(to="nests.blocks", check="with the prediction weights solved again"),),
    measure=measure_equation_7,
    law=equation_7,
    under="H_0, …, H_i are solved again for each i; cut off from the whole solution the risk can rise",
    law_under=equation_7_solved,
    takes=("model", "data"),
)


def _shorten(network: ResNEst, blocks: int) -> ResNEst:
    """The network cut after a block, sharing its weights."""
    return ResNEst(network.expansion, list(network.blocks)[:blocks], network.output)


def measure_corollary_1(
    seed: int, *, model: nn.Module | None = None, data: Iterable[object] | None = None
) -> Measured:
    """Risks at local minima of the prediction weights after 1, …, L blocks."""
    network, pair = network_and_pair(model, data, seed=seed, width=ROOMY)
    risks, critical = [], []
    result = certificate_of(network, pair)
    assert result.linear_feature_risk is not None
    for blocks in range(1, len(network.blocks) + 1):
        minimum, reached = local_minimum(_shorten(network, blocks), pair, seed=seed)
        risks.append(certificate_of(minimum, pair).risk / result.constant_risk)
        critical.append(reached)
    return Measured(
        numbers={"risks": risks, "linear": result.linear_feature_risk / result.constant_risk},
        assumptions=(*assumptions_of(result, 2, 3, 4), *critical),
    )


def corollary_1(numbers: Numbers) -> list[Relation]:
    """No rise with another block."""
    return [
        at_most(f"risk with {i + 2} blocks against {i + 1}", after, before, slack=_SLACK)
        for i, (before, after) in enumerate(pairwise(numbers["risks"]))
    ]


COROLLARY_1 = Claim(
    name="nests.corollary_1",
    statement="A local minimum with more blocks is no higher than one with fewer, if the "
    "features of the latter are among those of the former.",
    assumptions=(A2, A3, A4),
    tested="Local minima of the prediction weights of a network cut after each of its blocks.",
    measure=measure_corollary_1,
    law=corollary_1,
    takes=("model", "data"),
)


def measure_corollary_2(
    seed: int,
    *,
    model: nn.Module | None = None,
    data: Iterable[object] | None = None,
    width: int = ROOMY,
) -> Measured:
    """Risks at local minima in all weights, against the best linear predictor."""
    network, pair = network_and_pair(model, data, seed=seed, width=width)
    learn_features_(network, pair)
    rows, critical = [], []
    result = certificate_of(network, pair)
    for start in range(2):
        minimum, reached = local_minimum(network, pair, seed=2 * seed + start)
        result = certificate_of(minimum, pair)
        rows.append(result.risk / result.constant_risk)
        critical.append(reached)
    assert result.bound is not None
    assert result.linear_feature_risk is not None
    return Measured(
        numbers={
            "risks": rows,
            "linear": result.linear_feature_risk / result.constant_risk,
            "bound": result.bound / result.constant_risk,
            "input_as_feature": _repeated_input(problem(seed), seed=seed),
        },
        assumptions=(*assumptions_of(result, 2, 3, 4), *critical),
        settings={"width": width},
    )


def _repeated_input(pair: Pair, *, seed: int) -> dict[str, object]:
    """A network whose only feature is its input again: v_1 = x, with H_0 = 0 and H_1 the linear solution.

    H = (0, A) is a minimizer of the augmented risk, so that the printed premise of strictness, a
    higher risk with H_1 = 0, is met; and no network with these features can beat the linear predictor.
    """
    x, y = pair
    expansion = estimator(width=ROOMY, inputs=x.shape[1]).expansion
    assert isinstance(expansion, nn.Linear)
    again = nn.Linear(ROOMY, x.shape[1], bias=False, dtype=torch.float64)
    with torch.no_grad():
        again.weight.copy_(torch.linalg.pinv(expansion.weight))
    network = resnest(
        x.shape[1],
        y.shape[1],
        width=ROOMY,
        feature_sizes=[x.shape[1]],
        functions=[again],
        intercept=False,
    ).double()
    network.expansion = expansion
    minimum, reached = local_minimum(network, pair, seed=seed)
    result = certificate_of(minimum, pair)
    assert result.linear_feature_risk is not None
    zero_first = float(y.square().mean())  # the risk of H = (0, 0)
    return {
        "premise": (zero_first - result.linear_feature_risk) / result.constant_risk,
        "gain": (result.linear_feature_risk - result.risk) / result.constant_risk,
        "critical": reached.holds,
    }


def corollary_2(numbers: Numbers) -> list[Relation]:
    """No worse than linear, and strictly better wherever the printed premise is met."""
    example = numbers["input_as_feature"]
    strict = (
        []
        if example["premise"] <= 1e-3
        else [
            at_least(
                "v_1 = x, where the premise is met: gain over the best linear",
                example["gain"],
                5e-4,
            )
        ]
    )
    return [*corollary_2_by_bound(numbers), *strict]


def corollary_2_by_bound(numbers: Numbers) -> list[Relation]:
    """No worse than linear; strictly better where the bound lies below the best linear predictor."""
    linear, bound = numbers["linear"], numbers["bound"]
    helps = linear - bound > 1e-3
    return [
        at_most(
            f"start {i}: risk against the best linear",
            risk,
            linear - (5e-4 if helps else 0),
            slack=_SLACK,
        )
        for i, risk in enumerate(numbers["risks"])
    ]


COROLLARY_2 = Claim(
    name="nests.corollary_2",
    formula=r"\mathcal R(W^*,\theta^*) \le \min_{A}\frac1N\sum_{n}\ell(A x^n, y^n)",
    statement="A local minimum is no worse than the best linear predictor of the input, and "
    "strictly better if the features after the first lower the augmented risk.",
    assumptions=(A2, A3, A4),
    tested="Risks at local minima from several starts against the best linear predictor, and "
    "the augmented risk with and without features.",
    links=(Link(to="nests.bottleneck", check="local minima that are worse"),),
    measure=measure_corollary_2,
    law=corollary_2,
    under="for strictness: the smallest augmented risk with all features lies below the smallest with the "
    "input alone. The printed premise compares with H_0 of one minimizer and zeros after it, which "
    "v_1 = x, H_0 = 0 meets while no improvement is possible",
    law_under=corollary_2_by_bound,
    takes=("model", "data", "width"),
)


def measure_remark_2(
    seed: int,
    *,
    model: nn.Module | None = None,
    data: Iterable[object] | None = None,
    width: int = ROOMY,
) -> Measured:
    """The best risk from each representation x_1, …, x_L of a network at a local minimum."""
    network, pair = network_and_pair(model, data, seed=seed, width=width)
    network, reached = local_minimum(network, pair, seed=seed)
    result = certificate_of(network, pair)
    assert result.linear_feature_risk is not None
    with torch.no_grad():
        representations = network.representations(pair[0])
    loss = convex_loss(None, pair[1], num_outputs=network.output.out_features)
    risks = []
    for representation in representations[1:]:
        basis = nested_basis([representation], intercept=network.has_intercept)
        best = best_predictor(basis, loss, num_outputs=network.output.out_features)
        risks.append(best.risk / result.constant_risk)
    return Measured(
        numbers={"risks": risks, "linear": result.linear_feature_risk / result.constant_risk},
        assumptions=(*assumptions_of(result, 2, 3, 4), reached),
        settings={"width": width, "feature sizes": FEATURES},
    )


def remark_2(numbers: Numbers) -> list[Relation]:
    """Never rising over the blocks, and never above the input's."""
    return [
        *corollary_1(numbers),
        *(
            at_least(f"best linear against x_{i + 1}", numbers["linear"], risk, slack=_SLACK)
            for i, risk in enumerate(numbers["risks"])
        ),
    ]


REMARK_2 = Claim(
    name="nests.remark_2",
    statement="At a local minimum, representations improve monotonically over the blocks, and "
    "each predicts no worse than the input does.",
    assumptions=(A2, A3, A4),
    tested="The best risk from each representation x_1, …, x_L of a network trained to a "
    "local minimum.",
    measure=measure_remark_2,
    law=remark_2,
    takes=("model", "data", "width"),
)
