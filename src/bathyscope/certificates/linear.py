"""The best linear predictor of the whole input: of every pixel where the input is an image."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.basis import nested_basis
from bathyscope.certificates.losses import ConvexLoss
from bathyscope.certificates.predictor import (
    best_predictor,
    needed_ridge,
    penalty,
    why_no_minimizer,
)

_MOST_WORK = 10**10  # multiplications of one product of the design with itself: about half a minute


@dataclass(frozen=True)
class LinearPrediction:
    """The best linear predictor of all values of the input, on the samples of a certificate.

    Attributes:
        risk: its risk plus ½ · ridge · mean ‖ŷ‖².
        ridge: 0 where the loss has a minimizer, and `why_ridge` says why it has none.
        penalty: ½ · ridge · mean ‖ŷ‖² of the network, to compare it with `risk`.
        gap: an estimate of how far the risk lies above the smallest one.
        interpolates: whether the input has as many directions as there are samples: the predictor
            then gives any targets, which shows nothing about new samples.
    """

    risk: float
    ridge: float
    why_ridge: str
    penalty: float
    gap: float
    interpolates: bool


def can_be_formed(num_samples: int, num_values: int) -> bool:
    """Whether the predictor of this many values of an image takes no more than about a minute."""
    fewer, more = sorted((num_samples, num_values))
    return fewer * fewer * more <= _MOST_WORK


def linear_prediction(
    inputs: Float[Tensor, " n d"],
    loss: ConvexLoss,
    *,
    outputs: Float[Tensor, " n c"],
    intercept: bool,
) -> LinearPrediction:
    """Solve for the best linear predictor of the inputs.

    Args:
        inputs: one row per sample.
        loss: ℓ with its targets.
        outputs: of the network.
        intercept: whether a constant belongs to the predictor.
    """
    num_outputs = outputs.shape[1]
    basis = nested_basis((inputs,), intercept=intercept)
    ridge, start = needed_ridge(basis, loss, num_outputs=num_outputs)
    result = best_predictor(basis, loss, num_outputs=num_outputs, ridge=ridge, start=start)
    return LinearPrediction(
        risk=result.objective,
        ridge=ridge,
        why_ridge=why_no_minimizer(basis, loss, start) if ridge and start is not None else "",
        penalty=penalty(outputs, basis.weights, ridge=ridge),
        gap=result.gap,
        interpolates=basis.size() >= len(inputs),
    )
