"""A handful of pseudo-samples with the second moments of a whole data set."""

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.errors import UsageError


def moments(
    x: Float[Tensor, " n d_x"], y: Float[Tensor, " n d_y"]
) -> tuple[Float[Tensor, " d d_x"], Float[Tensor, " d d_y"]]:
    """d = d_x + d_y pseudo-samples with exactly the second moments of the data.

    With Z = [x y], the pseudo-samples P satisfy PᵀP/d = ZᵀZ/n. A linear network's squared loss
    *averaged over samples*, (1/n) Σ ‖W x_i − y_i‖² with W any function of the parameters, is
    tr([W −I] (ZᵀZ/n) [W −I]ᵀ): so its value, gradient and Hessian on P are those on the data. A
    loss that sums over samples is d/n times the one on the data. A network with biases is linear
    in [x 1]: append a column of ones to `x`.

    P is √(d/n) R with Z = QR, computed in float64 a chunk of rows at a time; this keeps each
    column to its own relative accuracy, where a factor of ZᵀZ would square the condition number.
    Fewer samples than d, or dependent columns, give rows of zeros, which is right.

    Args:
        x: inputs, one sample a row.
        y: targets, one sample a row (one-hot for classes).

    Returns:
        Inputs and targets of the pseudo-samples, in the dtype of `x` and `y`. Float32 rounds
        them to 1e-7: give float64 for exact moments.

    Raises:
        UsageError: no samples, or a number that is non-finite.

    Examples:
        >>> x = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
        >>> px, py = moments(x, 2 * x)
        >>> px.shape, round((px.square().mean() - x.square().mean()).item(), 12)
        (torch.Size([2, 1]), 0.0)
    """
    n, d_x = x.shape
    d = d_x + y.shape[1]
    if n == 0 or not (torch.isfinite(x).all() and torch.isfinite(y).all()):
        raise UsageError("Moments need at least one sample and finite numbers throughout.")
    rows = max(4 * d, 4096)
    factor = torch.zeros(0, d, dtype=torch.float64, device=x.device)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        chunk = torch.cat([x[part].double(), y[part].double()], dim=1)
        factor = torch.linalg.qr(torch.cat([factor, chunk]), mode="r").R
    samples = torch.zeros(d, d, dtype=torch.float64, device=x.device)
    samples[: len(factor)] = factor * (d / n) ** 0.5
    return samples[:, :d_x].to(x.dtype), samples[:, d_x:].to(y.dtype)
