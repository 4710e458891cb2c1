"""Polar factors: the nearest matrix whose singular values are all one.

A = U·H with UᴴU = I (or UUᴴ = I for a wide A) and H Hermitian; U = A(AᴴA)^{-1/2} is the solution of
the Procrustes problem (norm_preservation, equation 8, with the Hermitian transpose).
"""

from typing import Literal

import torch
from jaxtyping import Inexact
from torch import Tensor

PolarMethod = Literal["eigh", "svd", "newton-schulz"]

# A Gram matrix of condition number κ² gives its inverse root to about ε·κ², and one Newton–Schulz
# step squares that error away; above this κ² the SVD is taken.
_LOST = {torch.float32: 1e5, torch.float64: 1e12}


def polar_factor(
    matrix: Inexact[Tensor, " *b d c"], *, method: PolarMethod = "eigh"
) -> Inexact[Tensor, " *b d c"]:
    """The nearest matrix with all singular values one, for each matrix of a batch.

    Args:
        matrix: real or complex, of any shape; the work is done on the smaller side.
        method: "eigh" takes (AᴴA)^{-1/2} from eigenvalues and falls back to the SVD for matrices
            that are too ill-conditioned for it; "svd" is U·Vᴴ; "newton-schulz" needs products only.

    Returns:
        A matrix of the same shape. The factor of a matrix without full rank is not unique: one of
        them is returned. A zero matrix stays zero.

    Examples:
        >>> polar_factor(torch.tensor([[3.0, 0.0], [0.0, -2.0]]))
        tensor([[ 1.,  0.],
                [ 0., -1.]])
    """
    if matrix.shape[-2] < matrix.shape[-1]:
        return polar_factor(matrix.mH, method=method).mH
    if method == "svd":
        return _by_svd(matrix)
    if method == "newton-schulz":
        return newton_schulz(matrix)
    return _by_eigh(matrix)


def newton_schulz(
    matrix: Inexact[Tensor, " *b d c"], *, steps: int = 30, tolerance: float | None = None
) -> Inexact[Tensor, " *b d c"]:
    """Polar factor by A ← (3/2)A − (1/2)A(AᴴA), which converges for singular values in (0, √3).

    The matrix is divided first by √(‖A‖₁‖A‖_∞), or ‖A‖_F where that is less: both are at least
    its spectral norm, so that every singular value starts in (0, 1].

    Args:
        matrix: with at least as many rows as columns.
        steps: at most this many; a singular value σ needs about log(1/σ)/log(3/2).
        tolerance: stop when max|AᴴA − I| is below this; None for √ε/10.

    Examples:
        >>> u = newton_schulz(torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]))
        >>> torch.allclose(u.T @ u, torch.eye(2), atol=1e-5)
        True
    """
    if tolerance is None:
        tolerance = torch.finfo(matrix.dtype).eps ** 0.5 / 10
    sizes = matrix.abs()
    bound = (sizes.sum(-1).amax(-1) * sizes.sum(-2).amax(-1)).sqrt()
    bound = torch.minimum(bound, torch.linalg.matrix_norm(matrix))
    factor = matrix / bound.clamp_min(torch.finfo(bound.dtype).tiny)[..., None, None]
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    for _ in range(steps):
        gram = factor.mH @ factor
        factor = 1.5 * factor - 0.5 * (factor @ gram)
        # Convergence is quadratic: this small before the step is nothing after it.
        if (gram - identity).abs().amax() < tolerance:
            break
    return factor


def inverse_square_root(
    gram: Inexact[Tensor, " *b c c"], *, steps: int = 10
) -> Inexact[Tensor, " *b c c"]:
    """G^{-1/2} by the coupled iteration of norm_preservation, equation 9.

    T = 3I − ZY, Y ← YT/2, Z ← TZ/2 from Y = G, Z = I; then Z → G^{-1/2}. It needs the eigenvalues
    of G below 3, so that G is divided by its Frobenius norm where that exceeds one.

    Examples:
        >>> inverse_square_root(torch.tensor([[4.0]]), steps=20)
        tensor([[0.5000]])
    """
    norm = torch.linalg.matrix_norm(gram).clamp_min(1)[..., None, None]
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    y, z = gram / norm, identity.expand_as(gram)
    for _ in range(steps):
        t = 3 * identity - z @ y
        y, z = y @ t / 2, t @ z / 2
    result: Tensor = z / norm.sqrt()
    return result


def _by_svd(matrix: Inexact[Tensor, " *b d c"]) -> Inexact[Tensor, " *b d c"]:
    left, sizes, right = torch.linalg.svd(matrix, full_matrices=False)
    result: Tensor = (left @ right).masked_fill((sizes[..., :1] == 0)[..., None], 0)
    return result


def inverse_root(gram: Inexact[Tensor, " *b c c"]) -> Inexact[Tensor, " *b c c"] | None:
    """G^{-1/2} from eigenvalues, or None where some G is too ill-conditioned to tell.

    Examples:
        >>> inverse_root(torch.tensor([[4.0]]))
        tensor([[0.5000]])
    """
    squares, vectors = torch.linalg.eigh(gram)
    root = _root(squares, vectors)
    return None if _lost(squares).any() else root


def _by_eigh(matrix: Inexact[Tensor, " *b d c"]) -> Inexact[Tensor, " *b d c"]:
    squares, vectors = torch.linalg.eigh(matrix.mH @ matrix)
    factor = matrix @ _root(squares, vectors)
    factor = torch.add(1.5 * factor, factor @ (factor.mH @ factor), alpha=-0.5)
    lost = _lost(squares)
    if lost.any():
        factor[lost] = _by_svd(matrix[lost])
    return factor


def _root(squares: Tensor, vectors: Tensor) -> Tensor:
    roots = squares.clamp_min(torch.finfo(squares.dtype).tiny).rsqrt().to(vectors.dtype)
    return (vectors * roots[..., None, :]) @ vectors.mH


def _lost(squares: Tensor) -> Tensor:
    condition = squares[..., -1] / squares[..., 0].clamp_min(0)  # NaN for a zero matrix
    return ~(condition < _LOST[squares.dtype])
