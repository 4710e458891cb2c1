"""Newton's method for a convex loss of a linear predictor, with a ridge on chosen weights."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.losses import ConvexLoss

Design = Float[Tensor, " n k"]
Coefficients = Float[Tensor, " k c"]

_SUFFICIENT_DECREASE = 1e-4  # Armijo's constant
_SHORTEST_STEP = 1e-10
_ROUNDING = 1e-17  # a decrement that the rounding of log-likelihoods of the order of one hides
_FORCING = 0.1  # relative residual to which the Newton equations are solved by conjugate gradients
_MOST_PRODUCTS = 60  # products with the Hessian before it is factorized instead
_LARGEST_FACTORED = 4000  # variables


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where Newton's method stopped.

    `decrement` is gᵀ H⁻¹ g at the end: half of it estimates how far the objective lies above its
    minimum. `step_norm` is the length of the last step; it does not shrink where no minimizer exists.
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
    tolerance: float = 1e-15,
    max_iterations: int = 100,
) -> Minimum:
    """Minimize Σ_n w_n ℓ(Φ_n C, y_n) + ½ Σ_k ρ_k ‖C_k‖² over C, by Newton's method with line search.

    Each step solves H d = −g by conjugate gradients, preconditioned by the blocks of H that belong
    to one output each (exact for a single output), or by a factorization where they stall. The
    objective never rises, whatever the accuracy of the steps: the result is no worse than the start.

    Args:
        design: Φ; columns of similar size make the conjugate gradients short.
        loss: ℓ with its targets.
        weights: w, summing to one.
        ridge: ρ, one number per column of Φ.
        start: where to begin; rows that sum to zero if the loss is shift invariant.
        tolerance: stop when the decrement gᵀ H⁻¹ g falls below this times the objective.
        max_iterations: of Newton's method.
    """
    C = start.clone()
    outputs = design @ C
    objective = loss.mean(outputs, weights) + _penalty(C, ridge)
    decrement, step_norm, gradient = float("inf"), float("inf"), torch.zeros_like(C)
    iterations, exact = 0, False
    while iterations < max_iterations:
        iterations += 1
        gradient = design.T @ (weights[:, None] * loss.gradients(outputs)) + ridge[:, None] * C
        system = _System(design, loss, outputs, weights, ridge)
        solved = None if exact else system.by_conjugate_gradients(gradient)
        if solved is None:  # once they stall they stall again: nearly separable classes
            exact, solved = True, system.by_factorization(gradient)
        d = -solved
        if loss.is_shift_invariant:  # along a common shift the objective is flat, and d is noise
            d = d - d.mean(dim=1, keepdim=True)
        decrement = -float((gradient * d).sum())
        step_norm = float(d.norm())
        if not decrement > tolerance * objective + _ROUNDING:
            break
        moved, length = design @ d, 1.0
        while length > _SHORTEST_STEP:
            result = loss.mean(outputs + length * moved, weights) + _penalty(C + length * d, ridge)
            if result <= objective - _SUFFICIENT_DECREASE * length * decrement:
                break
            length /= 2
        else:  # rounding: no step lowers the objective
            break
        C, outputs, objective = C + length * d, outputs + length * moved, result
    return Minimum(C, objective, float(gradient.norm()), decrement, step_norm, iterations)


def _penalty(C: Coefficients, ridge: Float[Tensor, " k"]) -> float:
    return 0.5 * float(ridge @ C.square().sum(dim=1))


@dataclass(frozen=True, eq=False)
class _System:
    """The Newton equations H d = g, H = Φᵀ (w ∂²ℓ/∂ŷ²) Φ + diag(ρ), at one point."""

    design: Design
    loss: ConvexLoss
    outputs: Float[Tensor, " n c"]
    weights: Float[Tensor, " n"]
    ridge: Float[Tensor, " k"]

    def by_conjugate_gradients(self, g: Coefficients) -> Coefficients | None:
        """To a tenth of the gradient, preconditioned output by output; None where that stalls."""
        curvature, w, rho = self.loss.curvature(self.outputs), self.weights[:, None], self.ridge
        diagonal = w * self.loss.curvature_diagonal(self.outputs)
        blocks = torch.stack([self.design.T @ (c[:, None] * self.design) for c in diagonal.T])
        factors = _cholesky(blocks + torch.diag(rho))
        accuracy = _FORCING * float(g.norm())
        d, r = torch.zeros_like(g), g
        z = _precondition(factors, r)
        p, rz = z, float((r * z).sum())
        for _ in range(_MOST_PRODUCTS):
            if float(r.norm()) <= accuracy or rz <= 0:
                return d
            Hp = self.design.T @ (w * curvature(self.design @ p)) + rho[:, None] * p
            bending = float((p * Hp).sum())
            if bending <= 0:  # rounding: along p the objective is flat
                return d if bool(d.any()) else z
            d = d + (rz / bending) * p
            r = r - (rz / bending) * Hp
            z = _precondition(factors, r)
            rz, former = float((r * z).sum()), rz
            p = z + (rz / former) * p
        return None if g.numel() <= _LARGEST_FACTORED else d

    def by_factorization(self, g: Coefficients) -> Coefficients:
        """Exactly, with the whole of H."""
        k, c = g.shape
        curvature = self.loss.curvature(self.outputs)
        H = torch.zeros(c, k, c, k, dtype=g.dtype)
        for i in range(c):
            unit = torch.zeros_like(self.outputs)
            unit[:, i] = 1
            column = self.weights[:, None] * curvature(unit)
            for j in range(i + 1):
                H[i, :, j, :] = self.design.T @ (column[:, j, None] * self.design)
                H[j, :, i, :] = H[i, :, j, :]
            H[i, :, i, :] += torch.diag(self.ridge)
        factor = _cholesky(H.view(1, c * k, c * k))
        return torch.cholesky_solve(g.T.reshape(1, -1, 1), factor).view(c, k).T


def _precondition(factors: Float[Tensor, " c k k"], r: Coefficients) -> Coefficients:
    return torch.cholesky_solve(r.T[..., None], factors)[..., 0].T


def _cholesky(matrices: Float[Tensor, " b k k"]) -> Float[Tensor, " b k k"]:
    """Factors; a diagonal is added, growing until they exist: flat directions are rounded away."""
    largest = matrices.diagonal(dim1=1, dim2=2).amax(dim=1).clamp(min=1e-300)
    eye = torch.eye(matrices.shape[1], dtype=matrices.dtype)
    shift = 1e-15
    while True:
        factors, failed = torch.linalg.cholesky_ex(matrices + shift * largest[:, None, None] * eye)
        if not bool(failed.any()):
            result: Tensor = factors
            return result
        shift *= 100
