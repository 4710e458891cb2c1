"""Prediction weights of a ResNEst that is too narrow for its features to be read back."""

from typing import cast

import torch
from torch import nn

from bathyscope.certificates.basis import nested_basis
from bathyscope.certificates.predictor import EXISTENCE_RIDGE, best_predictor
from bathyscope.estimators.fitting import Choice, FitTask
from bathyscope.estimators.linear_part import LinearPart
from bathyscope.estimators.samples import Samples
from bathyscope.estimators.solving import RidgePath
from bathyscope.nets.nest import ResNEst


@torch.no_grad()
def solve_narrow_(network: ResNEst, samples: Samples, task: FitTask, choice: Choice) -> None:
    """Fit (W_L, W_{L+1}) on x_{L−1} and v_L: all that a narrow network's output can use.

    First the best prediction A x_{L−1} + B v_L, then W_{L+1} = A and W_L = A⁺ B, then W_{L+1} once
    more on x_L as it now is; the last step makes up for an A without full row rank.
    """
    x = torch.from_numpy(samples.X)
    weights = torch.from_numpy(samples.weights)
    loss = task.convex(samples)
    before, feature = network.representations(x)[-2], network.features(x)[-1]
    linear = LinearPart.of(
        before,
        loss=loss,
        weights=weights,
        num_outputs=task.num_outputs,
        intercept=False,
        existence_ridge=choice.existence_ridge,
    )
    readout = RidgePath.of(linear, feature).solve(choice.ridge).readout()
    mix = cast(nn.Linear, network.blocks[-1].mix)
    mix.weight.copy_(torch.linalg.pinv(readout.linear.T) @ readout.nonlinear.T)
    basis = nested_basis([network.representations(x)[-1]], weights=weights, intercept=False)
    again = best_predictor(
        basis,
        loss,
        num_outputs=task.num_outputs,
        ridge=0.0 if task.loss == "squared" else EXISTENCE_RIDGE,
    )
    (W,), _ = basis.prediction_weights(again.coefficients)
    network.output.weight.copy_(W.T)
