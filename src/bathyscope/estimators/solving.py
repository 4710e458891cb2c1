"""Prediction weights on fixed features: the linear feature free, the nonlinear ones under a ridge."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.basis import nested_basis
from bathyscope.certificates.losses import Squared
from bathyscope.certificates.newton import newton
from bathyscope.certificates.predictor import EXISTENCE_RIDGE, best_predictor
from bathyscope.estimators.linear_part import LinearPart

# A unit that fires on few samples hardly varies among them: were it blown up to unit variance, one
# on which it fires more strongly would be predicted far off.
_SMALLEST_SPREAD = 0.3
_NEGLIGIBLE = 1e-9  # singular value below which a direction of unit-variance features is dropped


@dataclass(frozen=True, eq=False)
class Readout:
    """ŷ = x A + v B + c for the linear feature x and the nonlinear features v."""

    linear: Float[Tensor, " d c"]
    nonlinear: Float[Tensor, " k c"]
    constant: Float[Tensor, " c"]

    def __call__(
        self, x: Float[Tensor, " n d"], v: Float[Tensor, " n k"] | None = None
    ) -> Float[Tensor, " n c"]:
        """The prediction; without the nonlinear features, that of the linear part."""
        linear = x @ self.linear + self.constant
        return linear if v is None else linear + v @ self.nonlinear


@dataclass(frozen=True, eq=False)
class RidgePath:
    """All solutions over the ridge ρ of min Σ_n w_n ℓ(ŷ_n, y_n) + ½ρ ‖B‖² + ½λ₀ ‖A‖².

    B acts on the nonlinear features in units of their standard deviation, or of `_SMALLEST_SPREAD` of
    the typical one if that is more, less what the linear feature predicts of them; so at every ρ the
    training risk is at most the best linear predictor's, which is the solution at ρ = ∞. λ₀ is 0
    unless the classes can be separated linearly.
    """

    linear: LinearPart
    directions: Float[Tensor, " n s"]
    to_features: Float[Tensor, " k s"]
    onto: Float[Tensor, " r s"]

    @classmethod
    def of(cls, linear: LinearPart, v: Float[Tensor, " n k"]) -> "RidgePath":
        """Prepare the directions that the nonlinear features v add to the linear part."""
        Q, weights = linear.basis.design(), linear.basis.weights
        root = weights.sqrt()[:, None]
        mean = weights @ v
        scale = (weights @ (v - mean).square()).sqrt()
        flat = scale <= 1e-12 * (1 + mean.abs())
        typical = (
            _SMALLEST_SPREAD * scale.square().mean().sqrt() if len(scale) else scale.new_zeros(())
        )
        units = torch.where(flat, 0.0, 1 / torch.where(flat, 1.0, scale.maximum(typical)))
        standard = v * units
        onto = Q.T @ (weights[:, None] * standard)
        rest = standard - Q @ onto
        U, S, Vh = torch.linalg.svd(root * rest, full_matrices=False)
        kept = torch.gt(S, _NEGLIGIBLE)
        turn = Vh[kept].T
        return cls(linear, (U[:, kept] * S[kept]) / root, units[:, None] * turn, onto @ turn)

    def best(self, ridge: float) -> "Solution":
        """The minimizer at one ridge, or the linear predictor should rounding make that better.

        Where the classes can be separated both carry the existence ridge, and the minimizer may
        have traded a little risk for it: then too the linear predictor is kept.
        """
        result, linear = self.solve(ridge), self.solve(float("inf"))
        return result if result.risk() <= linear.risk() else linear

    def constant_outputs(self) -> Float[Tensor, " n c"]:
        """The best constant prediction, for each sample."""
        basis = nested_basis([], weights=self.linear.basis.weights)
        result = best_predictor(
            basis,
            self.linear.loss,
            num_outputs=self.linear.coefficients.shape[1],
            ridge=min(self.linear.existence_ridge, EXISTENCE_RIDGE),
        )
        return basis.design() @ result.coefficients

    def solve(
        self, ridge: float, *, start: "Solution | None" = None, tolerance: float = 1e-15
    ) -> "Solution":
        """The minimizer at one ridge; at infinity the best linear predictor.

        Args:
            ridge: ρ.
            start: a solution at another ridge, near which to begin.
            tolerance: of Newton's method, relative to the objective.
        """
        linear, s = self.linear, self.directions.shape[1]
        r, c = linear.coefficients.shape
        if ridge == float("inf") or s == 0:
            return Solution(self, ridge, linear.coefficients, None)
        if isinstance(linear.loss, Squared):
            return self._least_squares(ridge)
        first = torch.cat([linear.coefficients, torch.zeros(s, c, dtype=torch.float64)])
        if start is not None and start.nonlinear is not None:
            first = torch.cat([start.linear, start.nonlinear])
        result = newton(
            torch.cat([linear.design, self.directions], dim=1),
            linear.loss,
            weights=linear.basis.weights,
            ridge=torch.cat([linear.ridge, torch.full((s,), ridge, dtype=torch.float64)]),
            start=first,
            tolerance=tolerance,
        ).coefficients
        return Solution(self, ridge, result[:r], result[r:])

    def _least_squares(self, ridge: float) -> "Solution":
        """Q ⟂ directions, so the linear coordinates stay and the others shrink one by one."""
        linear = self.linear
        assert isinstance(linear.loss, Squared)
        w = linear.basis.weights[:, None]
        Y = linear.loss.targets
        residual = Y - linear.design @ linear.coefficients
        power = (w * self.directions.square()).sum(dim=0)[:, None]
        B = (self.directions.T @ (w * residual)) / (power + 0.5 * ridge * Y.shape[1])
        return Solution(self, ridge, linear.coefficients, B)

    def _readout(
        self, linear: Float[Tensor, " r c"], nonlinear: Float[Tensor, " s c"] | None
    ) -> Readout:
        if nonlinear is None:
            nonlinear = torch.zeros(self.directions.shape[1], linear.shape[1], dtype=torch.float64)
        A, constant = self.linear.weights_and_constant(linear, self.onto @ nonlinear)
        return Readout(A, self.to_features @ nonlinear, constant)


@dataclass(frozen=True, eq=False)
class Solution:
    """One point of the path."""

    path: RidgePath
    ridge: float
    linear: Float[Tensor, " r c"]
    nonlinear: Float[Tensor, " s c"] | None

    def readout(self) -> Readout:
        """Weights on the features themselves."""
        return self.path._readout(self.linear, self.nonlinear)

    def outputs(self) -> Float[Tensor, " n c"]:
        """Predictions for the samples of the path."""
        linear = self.path.linear.design @ self.linear
        return linear if self.nonlinear is None else linear + self.path.directions @ self.nonlinear

    def risk(self) -> float:
        """Mean loss on the samples of the path."""
        return self.path.linear.loss.mean(self.outputs(), self.path.linear.basis.weights)

    def existence_penalty(self) -> float:
        """½λ₀ ‖A‖², A of the linear part."""
        return 0.5 * float(self.path.linear.ridge @ self.linear.square().sum(dim=1))
