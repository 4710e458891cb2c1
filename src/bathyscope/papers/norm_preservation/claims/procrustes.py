"""Equations 8 and 9 and algorithm 1: the nearest kernel with equal singular values, and how to get it."""

import math
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Complex
from scipy.linalg import fractional_matrix_power
from torch import Tensor

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.linalg import (
    conv_singular_values,
    convolution_of,
    exact_projection,
    polar_factor,
    polyphase,
)
from bathyscope.linalg.polar import inverse_square_root

_EXACT = 1e-8


def frequency_matrices(
    generator: torch.Generator, *, c: int, d: int, k: int = 3, n: int = 4
) -> Complex[Tensor, " f d c"]:
    """P(u, v) of a Gaussian kernel at all n² frequencies."""
    kernel = normal(generator, d, c, k, k)
    result: Tensor = torch.fft.fft2(kernel, s=(n, n)).flatten(2).permute(2, 0, 1)
    return result


def measure_equation_8(seed: int) -> Measured:
    """The formula with the plain and with the Hermitian transpose, on the matrices of a kernel."""
    generator = torch.Generator().manual_seed(seed)
    c, d = 3, 5
    P = frequency_matrices(generator, c=c, d=d)
    s = math.sqrt(d / min(d, c))
    plain = torch.stack([s * _plain(matrix) for matrix in P])
    hermitian = s * polar_factor(P)
    distance = float(torch.linalg.matrix_norm(P - hermitian).square().sum())
    others = []
    for _ in range(50):
        turn = torch.linalg.matrix_exp(0.05 * _skew(generator, d))
        others.append(float(torch.linalg.matrix_norm(P - turn @ hermitian).square().sum()))
    wide = s * polar_factor(frequency_matrices(generator, c=d, d=c))
    gram = wide.mH @ wide - s**2 * torch.eye(d)
    return Measured(
        numbers={
            "plain_spread": _spread(plain, s),
            "hermitian_spread": _spread(hermitian, s),
            "distance": distance,
            "smallest_distance_of_others": min(others),
            "wide_residual": float(torch.linalg.matrix_norm(gram).min()),
        },
        settings={"c": c, "d": d, "frequencies": len(P)},
    )


def _plain(matrix: Complex[Tensor, " d c"]) -> Complex[Tensor, " d c"]:
    root = fractional_matrix_power((matrix.mT @ matrix).numpy(), -0.5)
    return matrix @ torch.from_numpy(np.asarray(root, dtype=complex))


def _skew(generator: torch.Generator, size: int) -> Complex[Tensor, " n n"]:
    """A random skew-Hermitian matrix, whose exponential is unitary."""
    matrix = torch.complex(normal(generator, size, size), normal(generator, size, size))
    return matrix - matrix.mH


def _spread(matrices: Complex[Tensor, " f d c"], target: float) -> float:
    return float((torch.linalg.svdvals(matrices) / target - 1).abs().max())


def equation_8(numbers: Numbers) -> list[Relation]:
    """As printed, with the plain transpose: all singular values are s."""
    return [at_most("plain transpose: largest |σ/s − 1|", numbers["plain_spread"], _EXACT)]


def equation_8_hermitian(numbers: Numbers) -> list[Relation]:
    """With the Hermitian transpose they are, and no other candidate is nearer; wide P cannot be."""
    return [
        at_most("Hermitian transpose: largest |σ/s − 1|", numbers["hermitian_spread"], _EXACT),
        at_most(
            "distance, over the smallest of others",
            numbers["distance"] / numbers["smallest_distance_of_others"],
            1.0,
        ),
        at_least("c > d: ‖P̂ᴴP̂ − s²I‖", numbers["wide_residual"], 0.5),
    ]


EQUATION_8 = Claim(
    name="norm_preservation.equation_8",
    formula=r"\hat P = s\,P\,(P^\top P)^{-1/2}",
    statement="s P (PᵀP)^{-1/2} is the matrix nearest to P among those with P̂ᵀP̂ = s² I.",
    tested="The formula as printed on the complex matrices of a kernel, its singular values "
    "and distance; the same with the Hermitian transpose against many other candidates.",
    measure=measure_equation_8,
    law=equation_8,
    under="the Hermitian transpose, since P is complex, and d ≥ c (for c > d take PPᴴ)",
    law_under=equation_8_hermitian,
)


def coupled_iteration(
    gram: Complex[Tensor, " f c c"], *, steps: int
) -> list[Complex[Tensor, " f c c"]]:
    """Z_1, Z_2, … of equation 9 to the letter: from Y = G as it is, Z = I."""
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype)
    y, z, result = gram, identity.expand_as(gram), []
    for _ in range(steps):
        t = 3 * identity - z @ y
        y, z = y @ t / 2, t @ z / 2
        result.append(z)
    return result


def measure_equation_9(seed: int) -> Measured:
    """Errors of the iteration, relative to G^{-1/2}, from Gram matrices as they come and divided."""
    generator = torch.Generator().manual_seed(seed)
    P = frequency_matrices(generator, c=3, d=8)
    gram = P.mH @ P
    unit = gram / torch.linalg.matrix_norm(gram)[:, None, None]
    steps = 40
    raw, divided = (
        [_error(z, given) for z in coupled_iteration(given, steps=steps)] for given in (gram, unit)
    )
    small = [e for e in divided if 1e-7 < e < 0.1]
    orders = [math.log(after) / math.log(before) for before, after in pairwise(small)]
    return Measured(
        numbers={
            "largest_eigenvalue": float(torch.linalg.eigvalsh(gram).max()),
            "raw_error": raw[-1],
            "divided_error": divided[-1],
            "smallest_order": min(orders, default=math.nan),
            "public_error": _error(inverse_square_root(gram, steps=steps), gram),
        },
        settings={"steps": steps},
    )


def _error(root: Complex[Tensor, " f c c"], gram: Complex[Tensor, " f c c"]) -> float:
    """‖Z G Z − I‖ at its worst; infinite where the iteration left the numbers."""
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype)
    result = float(
        torch.linalg.matrix_norm(
            torch.nan_to_num(root @ gram @ root, nan=math.inf, posinf=1e300) - eye
        ).max()
    )
    return result if math.isfinite(result) else math.inf


def equation_9(numbers: Numbers) -> list[Relation]:
    """It converges from the Gram matrix as it comes."""
    return [at_most("error from PᴴP itself", numbers["raw_error"], _EXACT)]


def equation_9_divided(numbers: Numbers) -> list[Relation]:
    """It converges quadratically from a Gram matrix divided by its norm."""
    return [
        at_most("error from PᴴP/‖PᴴP‖", numbers["divided_error"], _EXACT),
        at_least("order of convergence", numbers["smallest_order"], 1.6),
        at_least("largest eigenvalue of PᴴP", numbers["largest_eigenvalue"], 3.0),
    ]


EQUATION_9 = Claim(
    name="norm_preservation.equation_9",
    statement="The coupled iteration from Y = PᵀP, Z = I converges to (PᵀP)^{-1/2} quadratically.",
    tested="Errors over the iterations, for Gram matrices as they come and divided by their norm.",
    measure=measure_equation_9,
    law=equation_9,
    under="a start with eigenvalues below 3, such as PᴴP divided by its norm, and the Hermitian "
    "transpose",
    law_under=equation_9_divided,
)


def measure_algorithm_1(seed: int) -> Measured:
    """Singular values after one projection, without and with a cut to 3 × 3 taps."""
    generator = torch.Generator().manual_seed(seed)
    c, d, n = 4, 8, 5
    target = math.sqrt(d / min(c, d))
    result: dict[str, object] = {}
    for name, k in (("whole", n), ("cut", 3), ("pointwise", 1)):
        kernel = normal(generator, d, c, k, k)
        taps = exact_projection(polyphase(convolution_of(kernel)), target, grid=(n, n))
        after = taps.weight[0].reshape(d, c, k, k)
        values = conv_singular_values(after, n, padding="circular").values / target
        result[f"{name}_smallest"], result[f"{name}_largest"] = float(values[-1]), float(values[0])
        before = conv_singular_values(kernel, n, padding="circular").spread
        result[f"{name}_spread_before"] = before
    return Measured(numbers=result, settings={"c": c, "d": d, "image": n})


def algorithm_1(numbers: Numbers) -> list[Relation]:
    """All singular values at their target, for kernels of every size."""
    return _on_target(numbers, ("whole", "pointwise", "cut"))


def algorithm_1_without_cut(numbers: Numbers) -> list[Relation]:
    """At their target where nothing is cut; away from it where the kernel is cut to 3 × 3."""
    return [
        *_on_target(numbers, ("whole", "pointwise")),
        at_most("3 × 3: smallest σ over its target", numbers["cut_smallest"], 0.95),
    ]


def _on_target(numbers: Numbers, names: tuple[str, ...]) -> list[Relation]:
    return [
        relation
        for name in names
        for relation in (
            at_least(
                f"{name} kernel: smallest σ over its target",
                numbers[f"{name}_smallest"],
                1.0,
                slack=1e-6,
            ),
            at_most(
                f"{name} kernel: largest σ over its target",
                numbers[f"{name}_largest"],
                1.0,
                slack=1e-6,
            ),
        )
    ]


ALGORITHM_1 = Claim(
    name="norm_preservation.algorithm_1",
    statement="Projecting every frequency and transforming back leaves the kernel "
    "norm-preserving: all nonzero singular values at their target.",
    tested="Singular values after one pass, for a kernel as large as the image and for one "
    "that is cut back to its 3 × 3 taps.",
    links=(Link(to="norm_preservation.figure_3", check="bare treated"),),
    measure=measure_algorithm_1,
    law=algorithm_1,
    under="kernels of one tap or as large as the image: the cut back to fewer taps undoes part of it",
    law_under=algorithm_1_without_cut,
)
