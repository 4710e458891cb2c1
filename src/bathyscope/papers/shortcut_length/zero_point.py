"""The Hessian of an n-shortcut network at zero weights, in closed form for n = 1, 2 and ≥ 3."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """An element-wise activation with its first two derivatives at zero.

    `slope` and `curvature` are found by autograd where None. A function with a kink at zero has no
    derivative there and must bring them: the paper takes a local polynomial for ReLU, such as the
    mean of its two slopes, 1/2.
    """

    function: Callable[[Tensor], Tensor]
    slope: float | None = None
    curvature: float | None = None

    def at_zero(self) -> tuple[float, float, float]:
        """Value, slope and curvature at zero.

        Raises:
            UsageError: the two one-sided slopes differ and no slope was given.
        """
        zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
        output = self.function(zero)
        value = float(output.detach())
        (first,) = torch.autograd.grad(output, zero, create_graph=True)
        if self.slope is None:
            self._check_smooth(float(first.detach()))
        slope = float(first.detach()) if self.slope is None else self.slope
        if self.curvature is not None:
            return value, slope, self.curvature
        if self.slope is not None or not first.requires_grad:
            return value, slope, 0.0
        (second,) = torch.autograd.grad(first, zero, allow_unused=True)
        return value, slope, 0.0 if second is None else float(second)

    def _check_smooth(self, slope: float) -> None:
        step = torch.tensor([-1e-6, 0.0, 1e-6], dtype=torch.float64)
        low, middle, high = (float(v) for v in self.function(step))
        sides = ((middle - low) / 1e-6, (high - middle) / 1e-6)
        if abs(sides[0] - sides[1]) > 1e-3 or abs(sides[0] - slope) > 1e-3:
            raise UsageError(
                f"The activation has no derivative at zero (slopes {sides[0]:.3g} to the left and "
                f"{sides[1]:.3g} to the right); say which to use: Activation(function=..., slope=...)."
            )


IDENTITY = Activation(function=lambda x: x, slope=1.0, curvature=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroPoint:
    """The Hessian at zero for every depth: it depends on the data only through small matrices.

    `coupling` is M = s_mid s_post (Σ^{Xσ(X)} − Σ^{Yσ(X)}) for n = 2; `own` and `cross` are B and A
    of equation 10 for n = 1 (cross: later unit in the rows). Unused ones are None.
    """

    n: int
    d: int
    dtype: torch.dtype
    coupling: Float[Tensor, " d d"] | None = None
    own: Float[Tensor, " dd dd"] | None = None
    cross: Float[Tensor, " dd dd"] | None = None

    def dense(self, num_units: int) -> Float[Tensor, " D D"]:
        """The matrix for a network of this many units (shortcut_length, equations 8 and 10).

        Coordinates are ordered by (r, l, row, column), as `torch.nn` modules flatten weights.
        """
        d2 = self.d * self.d
        if self.coupling is not None:
            eye = torch.eye(self.d).to(self.coupling)
            # rows W²[i,j], columns W¹[k,l]: M[i,l] where j = k
            a = torch.einsum("il,jk->ijkl", self.coupling, eye).reshape(d2, d2)
            unit = torch.cat(
                [torch.cat([torch.zeros_like(a), a.T], 1), torch.cat([a, torch.zeros_like(a)], 1)]
            )
            result: Tensor = torch.block_diag(*[unit] * num_units)
            return result
        if self.own is not None and self.cross is not None:
            below = torch.ones(num_units, num_units).tril(-1).to(self.own)
            return (
                torch.kron(torch.eye(num_units).to(self.own), self.own)
                + torch.kron(below, self.cross)
                + torch.kron(below.T.contiguous(), self.cross.T.contiguous())
            )
        return torch.zeros(num_units * self.n * d2, num_units * self.n * d2, dtype=self.dtype)

    def eigenvalues(self, num_units: int) -> Float[Tensor, " D"]:
        """All eigenvalues in ascending order, without the matrix where the form allows it.

        For n = 2 they are ± the singular values of M, each d times per unit, whatever the depth
        (shortcut_length, equation 26); for n ≥ 3 zeros; for n = 1 those of the block Toeplitz
        matrix.
        """
        if self.coupling is not None:
            sizes = torch.linalg.svdvals(self.coupling)
            return torch.cat([sizes, -sizes]).repeat(self.d * num_units).sort().values
        if self.own is None:
            return torch.zeros(num_units * self.n * self.d**2, dtype=self.dtype)
        result: Tensor = torch.linalg.eigvalsh(self.dense(num_units))
        return result


def zero_point(
    x: Float[Tensor, " m d"],
    y: Float[Tensor, " m d"],
    *,
    n: int,
    pre: Activation = IDENTITY,
    mid: Activation = IDENTITY,
    post: Activation = IDENTITY,
) -> ZeroPoint:
    """The Hessian of L = 1/(2m) Σ ‖y − f(x)‖² of an n-shortcut network at zero weights.

    f = Π_r (σ_post(W^{r,n} σ_mid(… σ_mid(W^{r,1} σ_pre(x)))) + x) (shortcut_length, theorem 2):
    zero for n ≥ 3, block diagonal for n = 2, block Toeplitz for n = 1. For n = 1 with a curved
    σ_post the diagonal block has the further term σ_post''(0) (x − y) σ_pre(x) σ_pre(x)ᵀ.

    Args:
        x: inputs.
        y: targets of the same dimension.
        n: length of the shortcuts.
        pre: activation before the first weight matrix.
        mid: activation between weight matrices.
        post: activation after the last one.

    Raises:
        UsageError: σ_mid(0) or σ_post(0) is not zero (assumption 3), or a derivative is missing.

    Examples:
        >>> at_zero = zero_point(torch.tensor([[1.0]]), torch.tensor([[3.0]]), n=2)
        >>> at_zero.eigenvalues(num_units=2).tolist()
        [-2.0, -2.0, 2.0, 2.0]
    """
    if n < 1:
        raise UsageError(f"A shortcut has a length of at least 1, but n is {n}.")
    d = x.shape[1]
    post_value, post_slope, post_curvature = post.at_zero()
    mid_value, mid_slope, _ = mid.at_zero() if n > 1 else (0.0, 1.0, 0.0)
    if abs(post_value) > 1e-12 or abs(mid_value) > 1e-12:
        raise UsageError(
            f"The activations at mid and post must vanish at zero, but they are {mid_value:.3g} and "
            f"{post_value:.3g} there: assumption 3 of the theorem fails."
        )
    if n >= 3:
        return ZeroPoint(n=n, d=d, dtype=x.dtype)
    # σ_pre enters with its derivative at the data, not at zero
    points = x.detach().clone().requires_grad_()
    fed = pre.function(points)
    (fed_slope,) = torch.autograd.grad(fed.sum(), points)
    fed = fed.detach()
    gap = x - y
    if n == 2:
        return ZeroPoint(
            n=n, d=d, dtype=x.dtype, coupling=mid_slope * post_slope * gap.T @ fed / len(x)
        )
    eye = torch.eye(d, dtype=x.dtype, device=x.device)
    second = fed.T @ fed / len(x)
    shared = post_slope**2 * torch.einsum("ik,jl->ijkl", eye, second)
    # curvature of σ_post at zero acts on the residual of each row
    bent = torch.einsum("mi,mj,ml->ijl", gap, fed, fed) / len(x)
    own = shared + post_curvature * torch.einsum("ik,ijl->ijkl", eye, bent)
    # a later unit's row feels an earlier unit's output through its own input
    through = torch.einsum("mi,mj,ml->ijl", gap, fed_slope, fed) / len(x)
    cross = shared + post_slope**2 * torch.einsum("jk,ijl->ijkl", eye, through)
    size = (d * d, d * d)
    return ZeroPoint(n=n, d=d, dtype=x.dtype, own=own.reshape(size), cross=cross.reshape(size))
