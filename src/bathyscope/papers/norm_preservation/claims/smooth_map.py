"""Theorem 1 and lemma 2: a smooth invertible map as residual blocks that come near the identity."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_most
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption
from bathyscope.papers.norm_preservation.claims.linear_blocks import residual_factors

_SIZE, _SAMPLES = 4, 32
_BLOCKS = (16, 32, 64, 128, 256)


class SmoothMap:
    """F(x) = A (x + ½ tanh(B x)), ‖B‖₂ = 1: smooth, invertible, F(0) = 0."""

    def __init__(self, generator: torch.Generator, *, orientation: int) -> None:
        self.A = normal(generator, _SIZE, _SIZE)
        B = normal(generator, _SIZE, _SIZE)
        self.B = B / torch.linalg.matrix_norm(B, 2)
        if (
            float(torch.linalg.det(self.slope(torch.zeros(_SIZE, dtype=torch.float64))))
            * orientation
            < 0
        ):
            self.A[0] = -self.A[0]

    def __call__(self, x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """F(x)."""
        result: Tensor = self.A @ (x + 0.5 * (self.B @ x).tanh())
        return result

    def slope(self, x: Float[Tensor, " n"]) -> Float[Tensor, " n n"]:
        """F′(x)."""
        bent = (1 - (self.B @ x).tanh().square())[:, None] * self.B
        result: Tensor = self.A @ (torch.eye(_SIZE, dtype=torch.float64) + 0.5 * bent)
        return result


def linear_slopes(F: SmoothMap, num_blocks: int) -> list[Float[Tensor, " n n"]]:
    """Jacobians of the first half of L residual blocks that make up F: the same wherever x is."""
    start = F.slope(torch.zeros(_SIZE, dtype=torch.float64))
    eye = torch.eye(_SIZE, dtype=torch.float64)
    return [eye + weight for weight in residual_factors(start, num_blocks // 2)]


def block_slopes(
    F: SmoothMap,
    x: Float[Tensor, " n"],
    num_blocks: int,
    linear: list[Float[Tensor, " n n"]] | None = None,
) -> list[Float[Tensor, " n n"]]:
    """Jacobians, first to last, of L residual blocks that make up F, where x passes them.

    Half of the blocks make F′(0) as a linear network; the others go through the dilations
    F_t(x) = F(tx)/t, t = (1 − η)^{k}, η = log(2k)/k: block j is F_{t_j} ∘ F_{t_{j−1}}^{-1}, with
    slope F′(t_j x) F′(t_{j−1} x)^{-1}. The former are given where they are known (`linear_slopes`).
    """
    result = list(linear or linear_slopes(F, num_blocks))
    count = num_blocks - len(result)
    shrink = 1 - math.log(2 * count) / count
    before = F.slope(torch.zeros_like(x))
    for j in range(1, count + 1):
        slope = F.slope(shrink ** (count - j) * x)
        result.append(slope @ torch.linalg.inv(before))
        before = slope
    return result


def measure_rate(seed: int, *, orientation: int = 1) -> Measured:
    """δ of the construction over L: by gradients (theorem 1) and by the branches' slopes (lemma 2)."""
    generator = torch.Generator().manual_seed(seed)
    F = SmoothMap(generator, orientation=orientation)
    x = normal(generator, _SAMPLES, _SIZE)
    x = x / x.norm(dim=1, keepdim=True).clamp_min(1)
    targets = normal(generator, _SAMPLES, _SIZE)
    determinant = float(torch.linalg.det(F.slope(torch.zeros(_SIZE, dtype=torch.float64))))
    numbers: JsonObject = {"blocks": _BLOCKS, "by_gradients": [], "by_slopes": [], "errors": []}
    for num_blocks in _BLOCKS:
        gradient, slope, error = 0.0, 0.0, 0.0
        linear = linear_slopes(F, num_blocks)
        for sample, target in zip(x, targets, strict=True):
            jacobians = block_slopes(F, sample, num_blocks, linear)
            by_gradient, whole = _back(jacobians, F(sample) - target)
            gradient = max(gradient, by_gradient)
            eye = torch.eye(_SIZE, dtype=torch.float64)
            slope = max(
                slope, float(torch.linalg.matrix_norm(torch.stack(jacobians) - eye, 2).max())
            )
            error = max(error, float((whole - F.slope(sample)).abs().max()))
        numbers["by_gradients"].append(gradient)
        numbers["by_slopes"].append(slope)
        numbers["errors"].append(error)
    return Measured(
        numbers=numbers,
        assumptions=(
            Assumption(
                statement="F′ has a positive determinant", holds=determinant > 0, value=determinant
            ),
            Assumption(statement="‖½B‖₂ < 1, so that F is invertible", holds=True, value=0.5),
        ),
        settings={"size": _SIZE, "samples": _SAMPLES},
    )


def _back(jacobians: list[Tensor], gradient: Tensor) -> tuple[float, Tensor]:
    """Largest |‖∂E/∂x_l‖/‖∂E/∂x_{l+1}‖ − 1| over the blocks, and the product of the Jacobians."""
    worst, whole = 0.0, torch.eye(_SIZE, dtype=torch.float64)
    for jacobian in reversed(jacobians):
        before = jacobian.T @ gradient
        worst = max(worst, abs(float(before.norm() / gradient.norm()) - 1))
        gradient, whole = before, whole @ jacobian
    return worst, whole


def rate(numbers: Numbers, deltas: str) -> list[float]:
    """δ·L/log(2L) at every L."""
    pairs = zip(numbers["blocks"], numbers[deltas], strict=True)
    return [delta * blocks / math.log(2 * blocks) for blocks, delta in pairs]


def theorem_1(numbers: Numbers) -> list[Relation]:
    """δ·L/log(2L) does not grow, and the blocks make up F."""
    return _bounded(numbers, "by_gradients")


def lemma_2(numbers: Numbers) -> list[Relation]:
    """The same of the branches' largest slopes."""
    return _bounded(numbers, "by_slopes")


def _bounded(numbers: Numbers, deltas: str) -> list[Relation]:
    result = rate(numbers, deltas)
    return [
        at_most("error of F′ as the product of the blocks'", max(numbers["errors"]), 1e-8),
        at_most(
            "δ·L/log(2L) at the largest L, over that at the smallest", result[-1] / result[0], 1.1
        ),
    ]


THEOREM_1 = Claim(
    name="norm_preservation.theorem_1",
    formula=r"(1-\delta)\Bigl\|\tfrac{\partial E}{\partial x_{l+1}}\Bigr\| \le "
    r"\Bigl\|\tfrac{\partial E}{\partial x_l}\Bigr\| \le (1+\delta)\Bigl\|\tfrac{\partial "
    r"E}{\partial x_{l+1}}\Bigr\|,\qquad \delta = c\,\tfrac{\log 2L}{L}",
    statement="A smooth invertible map can be written as L residual blocks that change "
    "gradient norms by no more than a factor 1 ± c log(2L)/L.",
    assumptions=(
        "the map is differentiable and invertible, with Lipschitz derivative and inverse",
        "its derivative has a positive determinant somewhere",
    ),
    tested="The blocks are built for one such map by the dilation of the cited existence "
    "proof; the constant is not given, so only the rate is judged: "
    "δ·L/log(2L) must not grow with L.",
    links=(Link(to="norm_preservation.figure_3", check="the deeper, the nearer"),),
    measure=measure_rate,
    law=theorem_1,
    takes=("orientation",),
)
LEMMA_2 = Claim(
    name="norm_preservation.lemma_2",
    statement="A map as in theorem 1 can be written with residual blocks of Lipschitz constant "
    "at most c log(2L)/L.",
    assumptions=("as in theorem 1",),
    tested="The branches' largest slopes, over sample points, in the construction of theorem "
    "1; the constant is not "
    "given, so only the rate is judged.",
    measure=measure_rate,
    law=lemma_2,
    takes=("orientation",),
)
