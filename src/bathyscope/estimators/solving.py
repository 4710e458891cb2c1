"""Prediction weights on fixed features: the linear feature free, the nonlinear ones under a ridge."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.basis import NestedBasis, nested_basis
from bathyscope.certificates.losses import ConvexLoss, Squared
from bathyscope.certificates.newton import newton
from bathyscope.certificates.predictor import best_predictor, needed_ridge

_NEGLIGIBLE = 1e-9  # singular value below which a direction of unit-variance features is dropped


@dataclass(frozen=True, eq=False)
class Readout:
    """ŷ = x A + v B + c for the linear feature x and the nonlinear features v."""

    linear: Float[Tensor, "d c"]
    nonlinear: Float[Tensor, "k c"]
    constant: Float[Tensor, " c"]

    def __call__(
        self, x: Float[Tensor, "n d"], v: Float[Tensor, "n k"] | None = None
    ) -> Float[Tensor, "n c"]:
        """The prediction; without the nonlinear features, that of the linear part."""
        linear = x @ self.linear + self.constant
        return linear if v is None else linear + v @ self.nonlinear


@dataclass(frozen=True, eq=False)
class RidgePath:
    """All solutions over the ridge ρ of min Σ_n w_n ℓ(ŷ_n, y_n) + ½ρ ‖B‖² + ½λ₀ Σ_n w_n ‖x_n A + c‖².

    B acts on the nonlinear features in units of their standard deviation, less what the linear
    feature predicts of them; so at every ρ the training risk is at most the best linear predictor's,
    which is the solution at ρ = ∞. λ₀ is 0 unless the classes can be separated linearly.
    """

    basis: NestedBasis
    loss: ConvexLoss
    linear_coefficients: Float[Tensor, "r c"]
    existence_ridge: float
    directions: Float[Tensor, "n s"]
    to_features: Float[Tensor, "k s"]
    onto: Float[Tensor, "r s"]

    @classmethod
    def of(
        cls,
        x: Float[Tensor, "n d"],
        v: Float[Tensor, "n k"],
        *,
        loss: ConvexLoss,
        weights: Float[Tensor, " n"],
        num_outputs: int,
        intercept: bool = True,
    ) -> "RidgePath":
        """Solve for the linear part and prepare the rest."""
        basis = nested_basis([x], weights=weights, intercept=intercept)
        existence, start = needed_ridge(basis, loss, num_outputs=num_outputs)
        linear = best_predictor(
            basis, loss, num_outputs=num_outputs, ridge=existence, start=start
        ).coefficients
        Q, root = basis.design(), weights.sqrt()[:, None]
        mean = weights @ v
        scale = (weights @ (v - mean).square()).sqrt()
        flat = scale <= 1e-12 * (1 + mean.abs())
        units = torch.where(flat, 0.0, 1 / torch.where(flat, 1.0, scale))
        standard = v * units
        onto = Q.T @ (weights[:, None] * standard)
        rest = standard - Q @ onto
        U, S, Vh = torch.linalg.svd(root * rest, full_matrices=False)
        kept = torch.gt(S, _NEGLIGIBLE)
        turn = Vh[kept].T
        return cls(
            basis,
            loss,
            linear,
            existence,
            (U[:, kept] * S[kept]) / root,
            units[:, None] * turn,
            onto @ turn,
        )

    def best(self, ridge: float) -> "Solution":
        """The minimiser at one ridge, or the linear predictor should rounding make that better.

        Where the classes can be separated both carry the existence ridge, and the minimiser may
        have traded a little risk for it: then too the linear predictor is kept.
        """
        found, linear = self.solve(ridge), self.solve(float("inf"))
        return found if found.risk() <= linear.risk() else linear

    def constant_outputs(self) -> Float[Tensor, "n c"]:
        """The best constant prediction, for each sample."""
        basis = nested_basis([], weights=self.basis.weights)
        found = best_predictor(
            basis,
            self.loss,
            num_outputs=self.linear_coefficients.shape[1],
            ridge=self.existence_ridge,
        )
        return basis.design() @ found.coefficients

    def solve(
        self, ridge: float, *, start: "Solution | None" = None, tolerance: float = 1e-15
    ) -> "Solution":
        """The minimiser at one ridge; at infinity the best linear predictor.

        Args:
            ridge: ρ.
            start: a solution at another ridge, near which to begin.
            tolerance: of Newton's method, relative to the objective.
        """
        s, c = self.directions.shape[1], self.linear_coefficients.shape[1]
        if ridge == float("inf") or s == 0:
            return Solution(self, ridge, self.linear_coefficients, None)
        if isinstance(self.loss, Squared):
            return self._least_squares(ridge)
        Q = self.basis.design()
        design = torch.cat([Q, self.directions], dim=1)
        ridges = torch.cat(
            [
                torch.full((Q.shape[1],), self.existence_ridge, dtype=torch.float64),
                torch.full((s,), ridge, dtype=torch.float64),
            ]
        )
        first = torch.zeros(design.shape[1], c, dtype=torch.float64)
        first[: Q.shape[1]] = self.linear_coefficients
        if start is not None and start.nonlinear is not None:
            first = torch.cat([start.linear, start.nonlinear])
        found = newton(
            design,
            self.loss,
            weights=self.basis.weights,
            ridge=ridges,
            start=first,
            tolerance=tolerance,
        ).coefficients
        return Solution(self, ridge, found[: Q.shape[1]], found[Q.shape[1] :])

    def _least_squares(self, ridge: float) -> "Solution":
        """Q ⟂ directions, so the linear coordinates stay and the others shrink one by one."""
        assert isinstance(self.loss, Squared)
        w = self.basis.weights[:, None]
        Y = self.loss.targets
        residual = Y - self.basis.design() @ self.linear_coefficients
        power = (w * self.directions.square()).sum(dim=0)[:, None]
        B = (self.directions.T @ (w * residual)) / (power + 0.5 * ridge * Y.shape[1])
        return Solution(self, ridge, self.linear_coefficients, B)

    def _readout(
        self, linear: Float[Tensor, "r c"], nonlinear: Float[Tensor, "s c"] | None
    ) -> Readout:
        if nonlinear is None:
            nonlinear = torch.zeros(self.directions.shape[1], linear.shape[1], dtype=torch.float64)
        (A,), constant = self.basis.prediction_weights(linear - self.onto @ nonlinear)
        return Readout(A, self.to_features @ nonlinear, constant)


@dataclass(frozen=True, eq=False)
class Solution:
    """One point of the path."""

    path: RidgePath
    ridge: float
    linear: Float[Tensor, "r c"]
    nonlinear: Float[Tensor, "s c"] | None

    def readout(self) -> Readout:
        """Weights on the features themselves."""
        return self.path._readout(self.linear, self.nonlinear)

    def outputs(self) -> Float[Tensor, "n c"]:
        """Predictions for the samples of the path."""
        linear = self.path.basis.design() @ self.linear
        return linear if self.nonlinear is None else linear + self.path.directions @ self.nonlinear

    def risk(self) -> float:
        """Mean loss on the samples of the path."""
        return self.path.loss.mean(self.outputs(), self.path.basis.weights)

    def existence_penalty(self) -> float:
        """½λ₀ Σ_n w_n ‖linear part of ŷ_n‖²; the basis is orthonormal."""
        return 0.5 * self.path.existence_ridge * float(self.linear.square().sum())
