"""Whitening to the largest principal components."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bathyscope.core.errors import UsageError


@dataclass(frozen=True, eq=False)
class Whitening:
    """An affine map under which the data it was made from has identity covariance.

    Attributes:
        mean: of the data.
        components: principal directions, each divided by its standard deviation.
        variances: of the data along each direction, largest first.
        numerical_rank: directions whose variance is above `tolerance`.
        tolerance: variance below which a direction counts as constant.
    """

    mean: Float64[Tensor, " d"]
    components: Float64[Tensor, " d k"]
    variances: Float64[Tensor, " k"]
    numerical_rank: int
    tolerance: float

    def __call__(self, x: Float[Tensor, " n *shape"]) -> Float[Tensor, " n k"]:
        """The k whitened coordinates of each sample, in the dtype of `x`."""
        flat = x.flatten(1)
        if flat.shape[1] != len(self.mean):
            raise UsageError(
                f"This whitening takes samples of {len(self.mean)} numbers; "
                f"those given have {flat.shape[1]}."
            )
        mean = self.mean.to(x.device)
        return ((flat.double() - mean) @ self.components.to(x.device)).to(x.dtype)


def whiten(x: Float[Tensor, " n *shape"], k: int) -> Whitening:
    """The map to the k largest principal components, each scaled to unit variance.

    With the covariance C = (1/n) Σ (x_i − μ)(x_i − μ)ᵀ = V Λ Vᵀ, a sample becomes
    Λ_k^{-1/2} V_kᵀ (x − μ), as for the ten components of MNIST in shortcut_length, appendix B.
    Computed in float64. The sign of each component is chosen so that its largest entry is
    positive, so the result does not depend on the eigensolver.

    Args:
        x: samples, flattened; constant columns do no harm.
        k: number of components.

    Returns:
        The map, for training and test data alike.

    Raises:
        UsageError: fewer than k directions vary, so that no map gives k unit variances.

    Examples:
        >>> x = torch.randn(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> z = whiten(x, 2)(x)
        >>> torch.allclose(z.T @ z / 50, torch.eye(2, dtype=torch.float64))
        True
    """
    flat = x.flatten(1)
    n, d = flat.shape
    if n == 0 or not torch.isfinite(flat).all():
        raise UsageError("Whitening needs at least one sample and finite numbers throughout.")
    flat = flat.double()
    mean = flat.mean(0)
    centered = flat - mean
    variances, directions = torch.linalg.eigh(centered.T @ centered / n)
    variances, directions = variances.flip(0), directions.flip(1)
    # Rounding in the products that form C: d·eps times its largest eigenvalue, and the
    # rounding of the mean itself, which shows where a column is constant but large.
    eps = torch.finfo(torch.float64).eps
    scale = float(variances[0].clamp(min=0.0))
    tolerance = max(n, d) * eps * scale + (eps * float(mean.abs().max())) ** 2 * d
    rank = int((variances > tolerance).sum())
    if not 1 <= k <= rank:
        raise UsageError(
            f"{k} principal components were asked for, but {rank} directions of these {n} samples "
            f"vary; choose k between 1 and {rank}."
            if rank
            else "All samples are the same: there is nothing to whiten."
        )
    kept = directions[:, :k]
    largest = kept.gather(0, kept.abs().argmax(0, keepdim=True))
    return Whitening(
        mean=mean,
        components=kept * largest.sign() / variances[:k].sqrt(),
        variances=variances[:k],
        numerical_rank=rank,
        tolerance=tolerance,
    )
