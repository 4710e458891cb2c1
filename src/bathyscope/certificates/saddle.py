"""Critical points of the prediction weights (W_L, W_{L+1}) with the features held fixed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn

from bathyscope.certificates.losses import ConvexLoss
from bathyscope.nets.nest import ResNEst

Kind = Literal["minimum", "saddle", "no descent to second order", "not critical"]
_DENSE_UP_TO = 500  # variables for which the whole Hessian is formed
_ACCURACY = 1e-6  # of the smallest curvature, as a fraction of the largest
_LANCZOS_STEPS = 300  # before a restart: with few steps restarts dominate
_STEP = 1e-3  # along the direction of negative curvature, to show that the risk falls


@dataclass(frozen=True, eq=False)
class CriticalPoint:
    """Gradient and curvature of the risk in (W_L, W_{L+1})   (nests, problem P_φ, equation 3).

    `direction` is the unit direction (ΔW_L, ΔW_{L+1}) of the smallest curvature; `drop` is how much
    the risk falls by a short step along it, to one side or the other.
    """

    kind: Kind
    gradient_norm: float
    tolerance: float
    smallest_curvature: float
    largest_curvature: float
    direction: tuple[Float[Tensor, " m k"], Float[Tensor, " c m"]]
    drop: float
    output_rank: int


@torch.no_grad()
def critical_point(
    network: ResNEst,
    loss: ConvexLoss,
    *,
    last: Float[Tensor, " n m"],
    feature: Float[Tensor, " n k"],
    epsilon: float,
    tolerance: float = 1e-6,
) -> CriticalPoint:
    """What kind of point the prediction weights of a ResNEst stand at.

    Args:
        network: a ResNEst on vectors, in float64, with at least one block.
        loss: ℓ with its targets.
        last: x_{L−1} for each sample.
        feature: v_L for each sample.
        epsilon: risk less its lower bound: at a critical point 0 means a global minimum.
        tolerance: gradients below this, curvatures within this of the largest, and ε below this
            count as zero.
    """
    mix = network.blocks[-1].mix
    assert isinstance(mix, nn.Linear), "the prediction weights of a ResNEst on vectors are matrices"
    W_last, W_out = mix.weight, network.output.weight
    x_L = last + feature @ W_last.T
    outputs = network.output(x_L)
    residual = loss.gradients(outputs) / len(outputs)
    curvature = loss.curvature(outputs)
    gradient = torch.cat([(W_out.T @ residual.T @ feature).ravel(), (residual.T @ x_L).ravel()])

    def product(vector: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        A = vector[: W_last.numel()].view_as(W_last)
        B = vector[W_last.numel() :].view_as(W_out)
        moved = feature @ A.T
        bent = curvature(x_L @ B.T + moved @ W_out.T) / len(outputs)
        along_last = W_out.T @ bent.T @ feature + B.T @ residual.T @ feature
        along_out = bent.T @ x_L + residual.T @ moved
        return torch.cat([along_last.ravel(), along_out.ravel()])

    smallest, largest, vector = _extreme_curvatures(product, len(gradient))
    A = vector[: W_last.numel()].view_as(W_last)
    B = vector[W_last.numel() :].view_as(W_out)
    weights = torch.full((len(outputs),), 1 / len(outputs), dtype=torch.float64)

    def risk(t: float) -> float:
        moved = (x_L + t * feature @ A.T) @ (W_out + t * B).T - x_L @ W_out.T
        return loss.mean(outputs + moved, weights)

    norm = float(gradient.norm())
    return CriticalPoint(
        kind=_kind(norm, smallest, largest, epsilon, tolerance),
        gradient_norm=norm,
        tolerance=tolerance,
        smallest_curvature=smallest,
        largest_curvature=largest,
        direction=(A.clone(), B.clone()),
        drop=risk(0.0) - min(risk(_STEP), risk(-_STEP)),
        output_rank=int(torch.linalg.matrix_rank(W_out)),
    )


def _kind(gradient: float, smallest: float, largest: float, epsilon: float, tol: float) -> Kind:
    if gradient > tol:
        return "not critical"
    if smallest < -tol * abs(largest):
        return "saddle"
    return "minimum" if epsilon <= tol else "no descent to second order"


def _extreme_curvatures(
    product: Callable[[Tensor], Tensor], size: int
) -> tuple[float, float, Float[Tensor, " p"]]:
    """Smallest and largest eigenvalue of a Hessian known by its products, and the smallest's vector."""
    if size <= _DENSE_UP_TO:
        columns = [product(unit) for unit in torch.eye(size, dtype=torch.float64)]
        hessian = torch.stack(columns)
        values, vectors = torch.linalg.eigh((hessian + hessian.T) / 2)
        return float(values[0]), float(values[-1]), vectors[:, 0]

    def matvec(v: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return product(torch.from_numpy(v).ravel()).numpy()

    # Curvatures crowd at zero, where accuracy relative to themselves is never reached: seen from the
    # largest they need be known only to a fraction of it.
    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), dtype=np.float64, matvec=matvec)
    (largest,) = eigsh(
        operator, k=1, which="LA", v0=start, tol=_ACCURACY, return_eigenvectors=False
    )
    below = LinearOperator(
        (size, size), dtype=np.float64, matvec=lambda v: largest * v.ravel() - matvec(v)
    )
    steps = min(size - 1, _LANCZOS_STEPS)
    (distance,), vectors = eigsh(below, k=1, which="LA", v0=start, tol=_ACCURACY, ncv=steps)
    return float(largest - distance), float(largest), torch.from_numpy(vectors[:, 0].copy())
