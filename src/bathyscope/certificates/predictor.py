"""The best predictor that is linear in given features: a convex problem, solved to a stated gap."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.basis import NestedBasis
from bathyscope.certificates.losses import ConvexLoss, CrossEntropy, Logistic, Squared
from bathyscope.certificates.newton import newton

EXISTENCE_RIDGE = 1e-6
"""Of ½λ · mean ‖ŷ‖², added where the loss alone has no minimizer (separable classes)."""

# The last Newton step, relative to the coefficients, at a minimizer; along a direction in which the
# loss only tends to its infimum, steps keep a length of the order of one.
_SETTLED = 1e-5


@dataclass(frozen=True, eq=False)
class Predictor:
    """The minimizer over H of the mean loss of Σ_i H_i v_i, and how exactly it was found.

    `objective` is the risk plus ½ · `ridge` · mean ‖ŷ‖². `gap` estimates how far the objective lies
    above its minimum: 0 for least squares, half the Newton decrement otherwise.
    """

    coefficients: Float[Tensor, " r c"]
    risk: float
    objective: float
    ridge: float
    gap: float
    gradient_norm: float


def best_predictor(
    basis: NestedBasis,
    loss: ConvexLoss,
    *,
    num_features: int | None = None,
    num_outputs: int,
    ridge: float = 0.0,
    start: Float[Tensor, " s c"] | None = None,
) -> Predictor:
    """Minimize Σ_n w_n ℓ(Σ_i H_i v_i(x_n), y_n) + ½ρ Σ_n w_n ‖ŷ_n‖²   (nests, equation 5).

    Squared loss is solved exactly in the orthonormal basis, other losses by Newton's method.

    Args:
        basis: coordinates of the features.
        loss: ℓ with its targets.
        num_features: how many features may be used, from the first; all if None.
        num_outputs: c.
        ridge: ρ.
        start: coordinates in the basis of fewer features, to begin from; the result is no worse.
    """
    design = basis.design(num_features)
    if isinstance(loss, Squared):
        return _least_squares(design, loss, weights=basis.weights, ridge=ridge)
    first = torch.zeros(design.shape[1], num_outputs, dtype=torch.float64)
    if start is not None:
        first[: len(start)] = start
    if design.shape[1] == 0:  # without an intercept, no features predict zero
        risk = loss.mean(design @ first, basis.weights)
        return Predictor(first, risk, risk, ridge, 0.0, 0.0)
    everywhere = torch.full((design.shape[1],), ridge, dtype=torch.float64)
    result = newton(design, loss, weights=basis.weights, ridge=everywhere, start=first)
    risk = loss.mean(design @ result.coefficients, basis.weights)
    return Predictor(
        result.coefficients,
        risk,
        result.objective,
        ridge,
        result.decrement / 2,
        result.gradient_norm,
    )


def needed_ridge(
    basis: NestedBasis, loss: ConvexLoss, *, num_outputs: int
) -> tuple[float, Float[Tensor, " r c"] | None]:
    """0 where the loss has a minimizer over the features, else `EXISTENCE_RIDGE`; and a start.

    The problem is solved with the ridge. If that gives every sample its own label, the classes can
    be separated. Else it is solved without the ridge from there: at a minimizer Newton's steps shrink,
    along a direction in which the loss falls for ever they do not.
    """
    if isinstance(loss, Squared):
        return 0.0, None
    design = basis.design()
    zeros = torch.zeros(design.shape[1], dtype=torch.float64)
    start = torch.zeros(design.shape[1], num_outputs, dtype=torch.float64)
    safe = newton(
        design, loss, weights=basis.weights, ridge=zeros + EXISTENCE_RIDGE, start=start
    ).coefficients
    if _separates(design @ safe, loss):
        return EXISTENCE_RIDGE, safe
    bare = newton(design, loss, weights=basis.weights, ridge=zeros, start=safe, max_iterations=20)
    if bare.step_norm <= _SETTLED * (1 + float(bare.coefficients.norm())):
        return 0.0, bare.coefficients
    return EXISTENCE_RIDGE, safe


def why_no_minimizer(
    basis: NestedBasis, loss: ConvexLoss, coefficients: Float[Tensor, " r c"]
) -> str:
    """In words, why a ridge is needed; it continues with "over the features".

    Args:
        basis: coordinates of the features.
        loss: one for which `needed_ridge` is positive.
        coefficients: of the best predictor at that ridge.
    """
    without = "the loss has no minimizer"
    if isinstance(loss, CrossEntropy):
        present, num_classes = len(loss.targets.unique()), coefficients.shape[1]
        if present == 1:
            return f"all samples are of one class, so {without}"
        if present < num_classes:
            return (
                f"{num_classes - present} of the {num_classes} classes have no sample, so {without}"
            )
    elif isinstance(loss, Logistic):
        if bool((loss.targets == loss.targets[0]).all(dim=0).any()):
            return f"an output has the same label for all samples, so {without}"
    else:
        return "Newton's steps settle on no minimizer"
    if _separates(basis.design() @ coefficients, loss):
        return f"the classes can be separated, so {without}"
    return "some classes can be separated, or nearly, so Newton's steps settle on no minimizer"


def _separates(outputs: Float[Tensor, " n c"], loss: ConvexLoss) -> bool:
    """Whether every sample has its own label: growing weights then bring the loss to zero."""
    if isinstance(loss, CrossEntropy):
        own = outputs.gather(1, loss.targets[:, None])
        beaten = outputs.scatter(1, loss.targets[:, None], -torch.inf).amax(dim=1, keepdim=True)
        return bool((own > beaten).all())
    if isinstance(loss, Logistic):
        return bool((((2 * loss.targets - 1) * outputs) > 0).all(dim=0).any())
    return False


def penalty(outputs: Float[Tensor, " n c"], weights: Float[Tensor, " n"], *, ridge: float) -> float:
    """½ρ Σ_n w_n ‖ŷ_n‖²: what the existence ridge adds to the risk of any predictor."""
    return 0.5 * ridge * float(weights @ outputs.square().sum(dim=1))


def _least_squares(
    design: Float[Tensor, " n r"], loss: Squared, *, weights: Float[Tensor, " n"], ridge: float
) -> Predictor:
    """Projection on an orthonormal basis; a second one takes up the rounding of the first."""
    c = loss.targets.shape[1]
    shrink = (2 / c) / (2 / c + ridge)
    C = design.T @ (weights[:, None] * loss.targets)
    C = C + design.T @ (weights[:, None] * (loss.targets - design @ C))
    C = shrink * C
    outputs = design @ C
    risk = loss.mean(outputs, weights)
    gradient = design.T @ (weights[:, None] * loss.gradients(outputs)) + ridge * C
    return Predictor(
        C, risk, risk + penalty(outputs, weights, ridge=ridge), ridge, 0.0, float(gradient.norm())
    )
