"""Orthonormal coordinates for features that come block by block."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Matrix = Float[Tensor, " n _"]


@dataclass(frozen=True, eq=False)
class BasisStage:
    """What one feature v adds: columns = (v − mean) · transform − former columns · onto.

    `columns` have unit weighted norm and are orthogonal to every former column. `unpredicted` is the
    fraction of the feature's variance that the former columns do not explain.
    """

    columns: Matrix
    mean: Float[Tensor, " k"]
    onto: Float[Tensor, " former r"]
    transform: Float[Tensor, " k r"]
    unpredicted: float

    @property
    def rank(self) -> int:
        """How many directions the feature adds."""
        return self.columns.shape[1]


@dataclass(frozen=True, eq=False)
class NestedBasis:
    """An orthonormal basis of the predictors that are linear in v_0, …, v_i, for every i.

    Orthonormal in the weighted inner product Σ_n w_n a_n b_n, Σ w = 1. With an intercept the
    constant is the first column.
    """

    weights: Float[Tensor, " n"]
    intercept: bool
    stages: tuple[BasisStage, ...]

    def size(self, num_features: int | None = None) -> int:
        """Columns of the basis of the first features (all, if None)."""
        stages = self.stages if num_features is None else self.stages[:num_features]
        return int(self.intercept) + sum(stage.rank for stage in stages)

    def design(self, num_features: int | None = None) -> Matrix:
        """The basis of the predictors linear in the first features, one row per sample."""
        stages = self.stages if num_features is None else self.stages[:num_features]
        constant = torch.ones(len(self.weights), int(self.intercept), dtype=torch.float64)
        return torch.cat([constant, *(stage.columns for stage in stages)], dim=1)

    def prediction_weights(
        self, coefficients: Float[Tensor, " r c"]
    ) -> tuple[list[Float[Tensor, " k c"]], Float[Tensor, " c"]]:
        """H_0, …, H_i and the intercept of the predictor with these coordinates in the basis."""
        rest = coefficients.clone()
        result: list[Tensor] = []
        constant = torch.zeros(coefficients.shape[1], dtype=coefficients.dtype)
        for stage in reversed(self.stages[: self._num_features(len(coefficients))]):
            own = len(rest) - stage.rank
            H = stage.transform @ rest[own:]
            rest = rest[:own] - stage.onto @ rest[own:]
            constant = constant - stage.mean @ H
            result.insert(0, H)
        if self.intercept:
            constant = constant + rest[0]
        return result, constant

    def _num_features(self, size: int) -> int:
        sizes = [self.size(i) for i in range(len(self.stages) + 1)]
        assert size in sizes, "coordinates belong to whole features"
        return len(sizes) - 1 - sizes[::-1].index(size)


def nested_basis(
    features: Sequence[Matrix],
    *,
    weights: Float[Tensor, " n"] | None = None,
    intercept: bool = True,
    tolerance: float | None = None,
) -> NestedBasis:
    """Orthonormalize features in their order, dropping directions that are linear in former ones.

    Columns are centered (with an intercept) and scaled to unit norm first, so neither their units
    nor their offsets matter.

    Args:
        features: v_0, …, v_L, float64, without the constant.
        weights: of the samples, positive; equal if None.
        intercept: whether a constant belongs to every predictor.
        tolerance: a direction counts as new if its singular value, of columns of norm one, exceeds
            this; numpy's convention ε·max(n, k) if None.
    """
    n = len(features[0] if weights is None else weights)
    w = torch.full((n,), 1 / n, dtype=torch.float64) if weights is None else weights / weights.sum()
    root = w.sqrt()[:, None]
    former = root if intercept else root[:, :0]  # all columns so far, in the scaled rows
    stages = []
    for v in features:
        mean = w @ v if intercept else torch.zeros(v.shape[1], dtype=torch.float64)
        centered = root * (v - mean)
        if intercept:  # a second pass: the first mean of a column far from zero is rounded
            correction = root.T @ centered
            centered, mean = centered - root * correction, mean + correction[0]
        onto, rest, factors = _scaled_remainder(centered, root * v, former)
        limit = torch.finfo(torch.float64).eps * max(v.shape) if tolerance is None else tolerance
        columns, map_back = _directions(rest, tolerance=limit)
        columns, leak, turn = _orthogonalize(columns, former)
        map_back = map_back @ turn
        norms = centered.square().sum()
        left = (rest / factors).square().sum() if rest.numel() else torch.zeros(())
        stages.append(
            BasisStage(
                columns=columns / root,
                mean=mean,
                onto=onto @ map_back + leak,
                transform=factors[:, None] * map_back,
                unpredicted=float(left / norms) if norms > 0 else 0.0,
            )
        )
        former = torch.cat([former, columns], dim=1)
    return NestedBasis(w, intercept, tuple(stages))


def _scaled_remainder(
    centered: Matrix, whole: Matrix, former: Matrix
) -> tuple[Tensor, Matrix, Float[Tensor, " k"]]:
    """Columns of norm one less their projection on the former ones (twice, against rounding).

    Returns the projection, the remainder, and the factors that gave the columns norm one. A column
    that is constant but for rounding is zero.
    """
    norms = centered.norm(dim=0)
    constant = norms <= 8 * torch.finfo(torch.float64).eps * whole.norm(dim=0)
    factors = torch.where(constant, 1.0, 1 / torch.where(constant, 1.0, norms))
    scaled = torch.where(constant, 0.0, centered * factors)
    onto = former.T @ scaled
    rest = scaled - former @ onto
    again = former.T @ rest
    return onto + again, rest - former @ again, factors


def _directions(rest: Matrix, *, tolerance: float) -> tuple[Matrix, Float[Tensor, " k r"]]:
    """Orthonormal columns that span the remainder, and the map from its columns to them."""
    if rest.shape[1] == 0:
        return rest, torch.zeros(0, 0, dtype=torch.float64)
    U, S, Vh = torch.linalg.svd(rest, full_matrices=False)
    kept = torch.gt(S, tolerance)
    return U[:, kept], Vh[kept].T / S[kept]


def _orthogonalize(
    columns: Matrix, former: Matrix
) -> tuple[Matrix, Float[Tensor, " former r"], Float[Tensor, " q r"]]:
    """Columns made orthogonal to the former ones, as `columns · turn − former · leak`.

    A remainder is orthogonal to the former columns up to rounding, and a small direction of it is
    scaled to norm one with its rounding: at a singular value of 1e-12 it leans on them by 1e-4. One
    that leans by half is nothing but rounding, and is dropped.
    """
    leaning = former.T @ columns
    new = leaning.square().sum(dim=0) < 0.5
    turn = torch.eye(len(new), dtype=torch.float64)[:, new]
    result, leak = (
        columns[:, new],
        torch.zeros(former.shape[1], int(new.sum()), dtype=torch.float64),
    )
    for _ in range(2):
        onto = former.T @ result
        result, leak = result - former @ onto, leak + onto
        result, R = torch.linalg.qr(result)
        leak, turn = (
            torch.linalg.solve_triangular(R, x, upper=True, left=False) for x in (leak, turn)
        )
    return result, leak, turn
