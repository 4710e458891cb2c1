"""Newton's method for a convex loss of a linear predictor, with a ridge on chosen weights."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.losses import ConvexLoss

Design = Float[Tensor, "n k"]
Coefficients = Float[Tensor, "k c"]

_SUFFICIENT_DECREASE = 1e-4  # Armijo's constant
_SHORTEST_STEP = 1e-10


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where Newton's method stopped.

    `decrement` is gᵀ H⁻¹ g at the end: half of it estimates how far the objective lies above its
    minimum. `step_norm` is the length of the last step; it does not shrink where no minimiser exists.
    """

    coefficients: Coefficients
    objective: float
    gradient_norm: float
    decrement: float
    step_norm: float
    num_iterations: int


@torch.no_grad()
def newton(
    design: Design,
    loss: ConvexLoss,
    *,
    weights: Float[Tensor, " n"],
    ridge: Float[Tensor, " k"],
    start: Coefficients,
    tolerance: float = 1e-18,
    max_iterations: int = 100,
) -> Minimum:
    """Minimise Σ_n w_n ℓ(Φ_n C, y_n) + ½ Σ_k ρ_k ‖C_k‖² over C, by Newton's method with line search.

    Each step solves H d = −g by conjugate gradients, preconditioned by the blocks of H that belong
    to one output each: exact for a single output. The objective never rises, whatever the accuracy
    of the steps, so the result is no worse than the start.

    Args:
        design: Φ; columns of similar size make the conjugate gradients short.
        loss: ℓ with its targets.
        weights: w, summing to one.
        ridge: ρ, one number a column of Φ.
        start: where to begin; rows that sum to zero if the loss is shift invariant.
        tolerance: stop when the decrement gᵀ H⁻¹ g falls below this times the objective.
        max_iterations: of Newton's method.
    """
    C = start.clone()
    outputs = design @ C
    objective = loss.mean(outputs, weights) + _penalty(C, ridge)
    decrement, step_norm, gradient = float("inf"), float("inf"), torch.zeros_like(C)
    iterations = 0
    while iterations < max_iterations:
        iterations += 1
        gradient = design.T @ (weights[:, None] * loss.gradients(outputs)) + ridge[:, None] * C
        d = -_solved(design, loss, outputs, weights=weights, ridge=ridge, gradient=gradient)
        if loss.is_shift_invariant:  # along a common shift the objective is flat, and d is noise
            d = d - d.mean(dim=1, keepdim=True)
        decrement = -float((gradient * d).sum())
        step_norm = float(d.norm())
        if not decrement > tolerance * max(objective, 1e-300):
            break
        moved, length = design @ d, 1.0
        while length > _SHORTEST_STEP:
            found = loss.mean(outputs + length * moved, weights) + _penalty(C + length * d, ridge)
            if found <= objective - _SUFFICIENT_DECREASE * length * decrement:
                break
            length /= 2
        else:  # rounding: no step lowers the objective
            break
        C, outputs, objective = C + length * d, outputs + length * moved, found
    return Minimum(C, objective, float(gradient.norm()), decrement, step_norm, iterations)


def _penalty(C: Coefficients, ridge: Float[Tensor, " k"]) -> float:
    return 0.5 * float(ridge @ C.square().sum(dim=1))


def _solved(
    design: Design,
    loss: ConvexLoss,
    outputs: Float[Tensor, "n c"],
    *,
    weights: Float[Tensor, " n"],
    ridge: Float[Tensor, " k"],
    gradient: Coefficients,
) -> Coefficients:
    """H⁻¹ g by conjugate gradients, to a relative residual that tightens with the gradient."""
    curvature = loss.curvature(outputs)

    def hessian(d: Coefficients) -> Coefficients:
        return design.T @ (weights[:, None] * curvature(design @ d)) + ridge[:, None] * d

    factors = _block_factors(
        design, weights[:, None] * loss.curvature_diagonal(outputs), ridge=ridge
    )

    def precondition(r: Coefficients) -> Coefficients:
        return torch.cholesky_solve(r.T[..., None], factors)[..., 0].T

    size = float(gradient.norm())
    accuracy = size * min(0.1, size**0.5)
    d = torch.zeros_like(gradient)
    r = gradient.clone()
    z = precondition(r)
    p, rz = z, float((r * z).sum())
    for _ in range(min(2 * gradient.numel(), 200)):
        if float(r.norm()) <= accuracy or rz <= 0:
            break
        Hp = hessian(p)
        bending = float((p * Hp).sum())
        if bending <= 0:  # rounding: along p the objective is flat
            break
        d = d + (rz / bending) * p
        r = r - (rz / bending) * Hp
        z = precondition(r)
        rz, former = float((r * z).sum()), rz
        p = z + (rz / former) * p
    return d if bool(d.any()) else z


def _block_factors(
    design: Design, curvature: Float[Tensor, "n c"], *, ridge: Float[Tensor, " k"]
) -> Float[Tensor, "c k k"]:
    """Cholesky factors of Φᵀ diag(curvature_j) Φ + diag(ρ) for each output j.

    A diagonal is added until the factorisation succeeds: it only makes a preconditioner.
    """
    blocks = torch.stack([design.T @ (column[:, None] * design) for column in curvature.T])
    blocks = blocks + torch.diag(ridge)
    largest = blocks.diagonal(dim1=1, dim2=2).amax(dim=1).clamp(min=1e-300)
    eye = torch.eye(blocks.shape[1], dtype=blocks.dtype)
    shift = 1e-15
    while True:
        factors, failed = torch.linalg.cholesky_ex(blocks + shift * largest[:, None, None] * eye)
        if not bool(failed.any()):
            return factors
        shift *= 100
