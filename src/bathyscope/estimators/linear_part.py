"""The linear part of a predictor, free where a best one exists and under a stated ridge where none does."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.basis import NestedBasis, nested_basis
from bathyscope.certificates.losses import ConvexLoss
from bathyscope.certificates.newton import newton
from bathyscope.certificates.predictor import EXISTENCE_RIDGE, best_predictor, needed_ridge


@dataclass(frozen=True, eq=False)
class LinearPart:
    """min Σ_n w_n ℓ(x_n A + c, y_n) + ½λ₀ ‖A‖², with λ₀ = 0 unless the classes can be separated.

    Growing weights separate such classes ever better, so that without λ₀ there is no minimizer.
    With it, this is scikit-learn's `LogisticRegression(C=1/(n λ₀))` on n equal samples; the constant
    has a ridge too, but only the tiny `EXISTENCE_RIDGE`, for a class without samples.

    Attributes:
        basis: orthonormal coordinates of the predictors linear in x.
        loss: ℓ with its targets.
        design: columns in which A has the norm of the coefficients if λ₀ > 0, orthonormal ones else.
        lengths: of the columns of the design.
        ridge: on the coefficients.
        coefficients: of the minimizer, in the columns of the design.
        existence_ridge: λ₀.
    """

    basis: NestedBasis
    loss: ConvexLoss
    design: Float[Tensor, " n r"]
    lengths: Float[Tensor, " r"]
    ridge: Float[Tensor, " r"]
    coefficients: Float[Tensor, " r c"]
    existence_ridge: float

    @classmethod
    def of(
        cls,
        x: Float[Tensor, " n d"],
        *,
        loss: ConvexLoss,
        weights: Float[Tensor, " n"],
        num_outputs: int,
        intercept: bool = True,
        existence_ridge: float = EXISTENCE_RIDGE,
    ) -> "LinearPart":
        """Solve for the best linear predictor.

        Args:
            x: standardized inputs.
            loss: ℓ with its targets.
            weights: of the samples, summing to one.
            num_outputs: c.
            intercept: whether there is a constant.
            existence_ridge: λ₀, used only where it is needed.
        """
        basis = nested_basis([x], weights=weights, intercept=intercept)
        needed, start = needed_ridge(basis, loss, num_outputs=num_outputs)
        Q = basis.design()
        lengths = torch.ones(Q.shape[1], dtype=torch.float64)
        free = torch.zeros_like(lengths)
        if needed == 0:
            result = best_predictor(basis, loss, num_outputs=num_outputs, start=start)
            return cls(basis, loss, Q, lengths, free, result.coefficients, 0.0)
        # x = Q · lengths · Vᵀ with V orthogonal, so that A and the coefficients have one norm
        lengths[int(intercept) :] = 1 / basis.stages[0].transform.norm(dim=0)
        zeros = torch.zeros(Q.shape[1], num_outputs, dtype=torch.float64)
        return cls(basis, loss, Q * lengths, lengths, free, zeros, needed).at(existence_ridge)

    def at(self, existence_ridge: float) -> "LinearPart":
        """The same under another λ₀; unchanged where none is needed."""
        if self.existence_ridge == 0:
            return self
        ridge = torch.full_like(self.lengths, existence_ridge)
        ridge[: int(self.basis.intercept)] = EXISTENCE_RIDGE
        result = newton(
            self.design, self.loss, weights=self.basis.weights, ridge=ridge, start=self.coefficients
        )
        return replace(
            self, ridge=ridge, coefficients=result.coefficients, existence_ridge=existence_ridge
        )

    def __call__(self, x: Float[Tensor, " n d"]) -> Float[Tensor, " n c"]:
        """Its predictions."""
        A, constant = self.weights_and_constant(self.coefficients)
        return x @ A + constant

    def weights_and_constant(
        self, coefficients: Float[Tensor, " r c"], shift: Float[Tensor, " r c"] | None = None
    ) -> tuple[Float[Tensor, " d c"], Float[Tensor, " c"]]:
        """A and c of a predictor with these coefficients, less a shift in the orthonormal basis."""
        moved = self.lengths[:, None] * coefficients
        (A,), constant = self.basis.prediction_weights(moved if shift is None else moved - shift)
        return A, constant
