"""Equations 2, 4 and 9: outputs that are linear in the features."""

import torch

from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.relation import Relation, at_most
from bathyscope.nets import densenest, residual_to_augmented
from bathyscope.nets.nest import prediction_of
from bathyscope.nets.nest_convert import prediction_weights
from bathyscope.papers.nests.claims.problems import (
    ENOUGH,
    FEATURES,
    INPUTS,
    OUTPUTS,
    estimator,
    problem,
)


@torch.no_grad()
def measure_equation_2(seed: int) -> Measured:
    """The output of a ResNEst against W_{L+1} Σ W_i v_i, with all features and without the last."""
    x, _ = problem(seed)
    network = estimator(width=ENOUGH)
    features, weights = network.features(x), prediction_weights(network)
    out = network(x)
    return Measured(
        numbers={
            "error": float((out - prediction_of(features, weights)).abs().max()),
            "error_without_the_last": float(
                (out - prediction_of(features[:-1], weights[:-1])).abs().max()
            ),
        }
    )


@torch.no_grad()
def measure_equation_4(seed: int) -> Measured:
    """The output of a ResNEst against that of its augmented form, and with one head left out."""
    x, _ = problem(seed)
    network = estimator(width=ENOUGH)
    form = residual_to_augmented(network)
    out = network(x)
    error = float((out - form(x)).abs().max())
    form.heads[-1].weight.zero_()
    return Measured(
        numbers={"error": error, "error_without_the_last": float((out - form(x)).abs().max())}
    )


@torch.no_grad()
def measure_equation_9(seed: int) -> Measured:
    """The output of a DenseNEst against Σ W_{L+1,i} v_i."""
    x, _ = problem(seed)
    network = densenest(INPUTS, OUTPUTS, feature_sizes=FEATURES, intercept=False).double()
    features = network.features(x)
    weights = list(network.output.weight.split(network.feature_sizes, dim=1))
    out = network(x)
    return Measured(
        numbers={
            "error": float((out - prediction_of(features, weights)).abs().max()),
            "error_without_the_last": float(
                (out - prediction_of(features[:-1], weights[:-1])).abs().max()
            ),
        }
    )


def linear_in_features(numbers: Numbers) -> list[Relation]:
    """The sum over the features is the output."""
    return [at_most("difference of the outputs", numbers["error"], 1e-10)]


EQUATION_2 = Claim(
    name="nests.equation_2",
    formula=r"\hat y = W_{L+1}\sum_{i=0}^{L} W_i\, v_i(x)",
    statement="The output of a ResNEst is linear in its features: ŷ = W_{L+1} Σ_i W_i v_i "
    "(with equation 1).",
    tested="The output against the sum over the features of the network.",
    definition="an identity of the implementation",
    measure=measure_equation_2,
    law=linear_in_features,
)
EQUATION_4 = Claim(
    name="nests.equation_4",
    formula=r"\hat y = \sum_{i=0}^{L} H_i\, v_i(x)",
    statement="The augmented form predicts with Σ_i H_i v_i; H_i = W_{L+1} W_i gives the ResNEst.",
    tested="The output of the augmented form of a ResNEst against the ResNEst's.",
    definition="an identity of the implementation",
    measure=measure_equation_4,
    law=linear_in_features,
)
EQUATION_9 = Claim(
    name="nests.equation_9",
    formula=r"\hat y = \sum_{i=0}^{L} W_{L+1,i}\, v_i(x)",
    statement="The output of a DenseNEst is Σ_i W_{L+1,i} v_i (with equation 8).",
    tested="The output against the sum over the features of the network.",
    definition="an identity of the implementation",
    measure=measure_equation_9,
    law=linear_in_features,
)
