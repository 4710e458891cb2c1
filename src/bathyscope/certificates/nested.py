"""The nested convex problems of a certificate: a constant, then one more feature at a time."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.basis import NestedBasis, nested_basis
from bathyscope.certificates.linear import LinearPrediction
from bathyscope.certificates.losses import ConvexLoss
from bathyscope.certificates.observation import Observation
from bathyscope.certificates.predictor import (
    Predictor,
    best_predictor,
    needed_ridge,
    penalty,
    why_no_minimizer,
)
from bathyscope.core.progress import report_progress


@dataclass(frozen=True, eq=False)
class Nested:
    """The best predictors of a constant, of the first feature and of all features.

    All include ½ · `ridge` · mean ‖ŷ‖², and so do the risks; `blocks` and `truncated` are empty
    unless asked for. Without features the three predictors are the constant.
    """

    basis: NestedBasis
    ridge: float
    why_ridge: str
    constant: Predictor
    first: Predictor
    whole: Predictor
    blocks: tuple[float, ...]
    truncated: tuple[float, ...]

    def linear_prediction(self, outputs: Float[Tensor, " n c"]) -> LinearPrediction:
        """That of the input, where the first feature is the input."""
        return LinearPrediction(
            risk=self.first.objective,
            ridge=self.ridge,
            why_ridge=self.why_ridge,
            penalty=penalty(outputs, self.basis.weights, ridge=self.ridge),
            gap=self.first.gap,
            interpolates=self.basis.size(1) >= len(outputs),
        )


def nested_solutions(seen: Observation, loss: ConvexLoss, *, blocks: bool) -> Nested:
    """Solve them, each begun from the one before so that no risk can rise.

    Args:
        seen: outputs and features of the network.
        loss: ℓ with its targets.
        blocks: one problem for every feature, and not only for the first and for all.
    """
    n, num_outputs = seen.outputs.shape
    weights = torch.full((n,), 1 / n, dtype=torch.float64)
    basis = nested_basis(seen.features, weights=weights, intercept=seen.intercept)
    ridge, start = needed_ridge(basis, loss, num_outputs=num_outputs)

    def solve(num_features: int, begin: Float[Tensor, " s c"] | None) -> Predictor:
        return best_predictor(
            basis,
            loss,
            num_features=num_features,
            num_outputs=num_outputs,
            ridge=ridge,
            start=begin,
        )

    count = len(seen.features)
    result = [solve(0, None)]
    for i in range(1, count + 1 if blocks else min(count, 1) + 1):
        report_progress("best predictor after feature", i, count)
        result.append(solve(i, result[-1].coefficients))
    whole = result[-1] if blocks else solve(count, start)
    return Nested(
        basis,
        ridge,
        why_no_minimizer(basis, loss, start) if ridge and start is not None else "",
        constant=result[0],
        first=result[min(count, 1)],
        whole=whole,
        blocks=tuple(p.objective for p in result[1:]) if blocks else (),
        truncated=_truncated_risks(seen, loss, basis, whole.coefficients, ridge=ridge)
        if blocks
        else (),
    )


def _truncated_risks(
    seen: Observation,
    loss: ConvexLoss,
    basis: NestedBasis,
    coefficients: Float[Tensor, " r c"],
    *,
    ridge: float,
) -> tuple[float, ...]:
    """Risks with H_0, …, H_i of the bound and zeros after: the literal reading of equation 7."""
    weights, constant = basis.prediction_weights(coefficients)
    outputs = constant.expand_as(seen.outputs)
    result = []
    for v, H in zip(seen.features, weights, strict=True):
        outputs = outputs + v @ H
        own = penalty(outputs, basis.weights, ridge=ridge)
        result.append(loss.mean(outputs, basis.weights) + own)
    return tuple(result)


def attainable(seen: Observation, loss: ConvexLoss, *, ridge: float) -> Predictor | None:
    """The infimum over (W_L, W_{L+1}): with M ≥ N_o, the best linear in x_{L−1} and v_L.

    For W_{L+1} of full row rank, W_{L+1} W_L is any matrix, and such W_{L+1} are dense.
    """
    if seen.last is None or seen.last.shape[1] < seen.outputs.shape[1] or len(seen.features) < 2:
        return None
    output = getattr(seen.network, "output", None)
    basis = nested_basis(
        (seen.last, seen.features[-1]), intercept=getattr(output, "bias", None) is not None
    )
    return best_predictor(basis, loss, num_outputs=seen.outputs.shape[1], ridge=ridge)
