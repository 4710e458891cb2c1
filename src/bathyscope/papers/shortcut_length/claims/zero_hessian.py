"""Theorem 2: the Hessian at zero for n = 1, 2 and 3, with activations at every position."""

from collections.abc import Iterable
from itertools import product

import torch
from torch import Tensor

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import half_squares
from bathyscope.claims.relation import Relation, at_most, equal
from bathyscope.curvature import exact_condition_number
from bathyscope.linalg import conditioning_of
from bathyscope.papers.shortcut_length.claims.assumptions import SMOOTH
from bathyscope.papers.shortcut_length.claims.at_zero import (
    ACTIVATIONS,
    Pair,
    assumption_3,
    at_zero,
    hessian_of,
    vectors,
)
from bathyscope.papers.shortcut_length.zero_point import zero_point

_UNITS = (2, 3)  # two depths: what is the same in both does not depend on it
_ROUNDING = 1e-10


def measure_theorem_2(
    seed: int,
    *,
    data: Iterable[object] | None = None,
    activations: tuple[str, ...] = ("identity", "tanh"),
) -> Measured:
    """Hessians by automatic differentiation and in closed form, for every choice of positions."""
    assumptions = assumption_3(activations)
    if not all(assumption.holds for assumption in assumptions):
        return Measured(numbers={}, assumptions=assumptions)
    pair = vectors(data, seed=seed)
    cases: list[dict[str, object]] = []
    for n in (1, 2, 3):
        for pre, mid, post in product(activations, repeat=3):
            if n > 1 or mid == activations[0]:  # n = 1 has no middle
                cases.append(_case(pair, n, pre=pre, mid=mid, post=post))
    return Measured(
        numbers={"cases": cases},
        assumptions=assumptions,
        settings={"units": _UNITS, "samples": len(pair[0]), "width": pair[0].shape[1]},
    )


def _case(pair: Pair, n: int, *, pre: str, mid: str, post: str) -> dict[str, object]:
    x, y = pair
    width = x.shape[1]
    closed = zero_point(
        x, y, n=n, pre=ACTIVATIONS[pre], mid=ACTIVATIONS[mid], post=ACTIVATIONS[post]
    )
    dense = [
        hessian_of(at_zero(units, n, width=width, pre=pre, mid=mid, post=post), pair)
        for units in _UNITS
    ]
    scale = float((x - y).square().mean())
    result: dict[str, object] = {
        "n": n,
        "positions": f"{pre}, {mid}, {post}",
        "closed_form_error": max(
            float((H - closed.dense(units)).abs().max()) / scale
            for H, units in zip(dense, _UNITS, strict=True)
        ),
        "largest_entry": max(float(H.abs().max()) for H in dense) / scale,
        "gradient": max(
            _gradient(at_zero(units, n, width=width, pre=pre, mid=mid, post=post), pair)
            for units in _UNITS
        ),
        "toeplitz_error": _toeplitz_error(dense[-1], _UNITS[-1]) / scale,
    }
    if n == 2:
        assert closed.coupling is not None
        values = [torch.linalg.eigvalsh(H) for H in dense]
        result |= {
            "condition_numbers": [
                exact_condition_number(
                    v, definition="smallest", percentile=0.1, tolerance=_ROUNDING
                ).value
                for v in values
            ],
            "condition_of_moments": conditioning_of(closed.coupling).condition_number,
            "most_negative": float(values[0][0]) / float(values[0][-1]),
            "off_diagonal": _between_units(dense[-1], _UNITS[-1]) / scale,
        }
    return result


def _gradient(network: torch.nn.Module, pair: Pair) -> float:
    parameters = tuple(network.parameters())
    result = torch.autograd.grad(half_squares(network(pair[0]), pair[1]), parameters)
    return float(torch.cat([g.flatten() for g in result]).abs().max())


def blocks_of(matrix: Tensor, num_units: int) -> Tensor:
    """The matrix as blocks (r, s, rows, columns), one for every pair of units."""
    size = matrix.shape[0] // num_units
    return matrix.reshape(num_units, size, num_units, size).transpose(1, 2)


def _toeplitz_error(matrix: Tensor, num_units: int) -> float:
    """How far blocks of equal order of their units are from one another."""
    blocks = blocks_of(matrix, num_units)
    error = 0.0
    for r, s in product(range(num_units), repeat=2):
        model = blocks[0, 0] if r == s else blocks[1, 0] if r > s else blocks[0, 1]
        error = max(error, float((blocks[r, s] - model).abs().max()))
    return error


def _between_units(matrix: Tensor, num_units: int) -> float:
    blocks = blocks_of(matrix, num_units).clone()
    blocks[range(num_units), range(num_units)] = 0
    return float(blocks.abs().max())


def theorem_2(numbers: Numbers) -> list[Relation]:
    """The three cases of the theorem."""
    cases = numbers["cases"]
    one, two, three = ([c for c in cases if c["n"] == n] for n in (1, 2, 3))
    return [
        at_most("n ≥ 2: gradient at zero", max(c["gradient"] for c in two + three), _ROUNDING),
        at_most("n ≥ 3: largest entry", max(c["largest_entry"] for c in three), _ROUNDING),
        at_most("n = 2: entries between units", max(c["off_diagonal"] for c in two), _ROUNDING),
        at_most("n = 2: closed form", max(c["closed_form_error"] for c in two), _ROUNDING),
        *(
            equal(
                f"n = 2, {c['positions']}: cond at two depths, over the formula",
                value / c["condition_of_moments"],
                1.0,
                slack=1e-6,
            )
            for c in two
            for value in c["condition_numbers"]
        ),
        at_most("n = 2: λ_min/λ_max", max(c["most_negative"] for c in two), -0.5),
        at_most("n = 1: block Toeplitz", max(c["toeplitz_error"] for c in one), _ROUNDING),
        at_most("n = 1: closed form", max(c["closed_form_error"] for c in one), _ROUNDING),
    ]


THEOREM_2 = Claim(
    name="shortcut_length.theorem_2",
    statement="At zero weights: for n ≥ 2 the loss is stationary to order n − 1, and for n ≥ 3 "
    "the Hessian is zero; for n = 2 it is block diagonal with cond(H)² = cond(ΔᵀΔ), "
    "Δ = Σ^{Xσ(X)} − Σ^{Yσ(X)}, at every depth, and a strict saddle unless Δ = 0; for n = 1 it "
    "is block Toeplitz, with blocks that depend on data and activations only.",
    assumptions=(SMOOTH,),
    tested="Dense Hessians of the networks by automatic differentiation, with tanh or "
    "nothing at every "
    "one of the three positions, against the closed forms, at two depths.",
    links=(
        Link(to="shortcut_length.figure_4", check="2-shortcut at zero"),
        Link(to="shortcut_length.figure_11"),
    ),
    measure=measure_theorem_2,
    law=theorem_2,
    takes=("data", "activations"),
)


def measure_equation_22(seed: int, *, data: Iterable[object] | None = None) -> Measured:
    """All eigenvalues of 2-shortcut networks at zero, with tanh at mid, and the moments' values."""
    pair = vectors(data, seed=seed)
    width = pair[0].shape[1]
    closed = zero_point(*pair, n=2, mid=ACTIVATIONS["tanh"])
    assert closed.coupling is not None
    sizes = torch.linalg.svdvals(closed.coupling)
    errors, counts = [], []
    for units in _UNITS:
        values = torch.linalg.eigvalsh(hessian_of(at_zero(units, 2, width=width, mid="tanh"), pair))
        copies = torch.cat([sizes, -sizes]).repeat(width * units).sort().values
        errors.append(float((values - copies).abs().max() / sizes[0]))
        near = (values - sizes[0]).abs() < 1e-8 * sizes[0]
        counts.append(int(near.sum()))
    return Measured(
        numbers={"errors": errors, "copies_of_the_largest": counts, "width": width},
        assumptions=assumption_3(("tanh",)),
        settings={"units": _UNITS},
    )


def equation_22(numbers: Numbers) -> list[Relation]:
    """± the singular values, once per unit and (as A repeats the moments) once a dimension."""
    return [
        *(
            at_most(f"{u} units: eigenvalues", e, _ROUNDING)
            for u, e in zip(_UNITS, numbers["errors"], strict=True)
        ),
        *(
            equal(f"{u} units: copies", count, u * numbers["width"])
            for u, count in zip(_UNITS, numbers["copies_of_the_largest"], strict=True)
        ),
    ]


EQUATION_22 = Claim(
    name="shortcut_length.equation_22",
    statement="For n = 2 the eigenvalues at zero are ±√eigs(AᵀA), one copy a unit; those are "
    "the singular values of s_mid s_post Δ, each repeated (equations 22 to 26).",
    assumptions=(SMOOTH,),
    tested="All eigenvalues of the dense Hessian of the network, at two depths, against the "
    "singular values of "
    "the moments.",
    measure=measure_equation_22,
    law=equation_22,
    takes=("data",),
)


def measure_equation_29(seed: int, *, data: Iterable[object] | None = None) -> Measured:
    """Blocks of a linear 1-shortcut network at zero, and the formulas entry by entry."""
    x, y = pair = vectors(data, seed=seed)
    m, d = x.shape
    blocks = blocks_of(hessian_of(at_zero(2, 1, width=d), pair), 2)
    eye = torch.eye(d, dtype=torch.float64)
    xx, gap = x.T @ x / m, (x - y).T @ x / m
    own = torch.einsum("ik,jl->ijkl", eye, xx)  # equation 28
    bent = torch.einsum("jk,il->ijkl", eye, gap)  # equation 31: j_1 = i_2
    size = (d * d, d * d)
    return Measured(
        numbers={
            "own": float((blocks[0, 0] - own.reshape(size)).abs().max()),
            "cross": float((blocks[1, 0] - (own + bent).reshape(size)).abs().max()),
            "cross_without_gap": float((blocks[1, 0] - own.reshape(size)).abs().max()),
            "cross_with_other_sign": float((blocks[1, 0] - (own - bent).reshape(size)).abs().max()),
        },
        settings={"samples": m, "width": d},
    )


def equation_29(numbers: Numbers) -> list[Relation]:
    """Both blocks, entry by entry."""
    return [
        at_most("B, equation 29", numbers["own"], _ROUNDING),
        at_most("A, equation 32", numbers["cross"], _ROUNDING),
    ]


EQUATION_29 = Claim(
    name="shortcut_length.equation_29",
    statement="For n = 1 without activations the blocks at zero are B = I ⊗ Σ^XX and "
    "A = (Σ^XX − Σ^YX) moved by a permutation + B (equations 27 to 32).",
    tested="The blocks of the dense Hessian of the network against these formulas, entry by entry.",
    measure=measure_equation_29,
    law=equation_29,
    takes=("data",),
)


def measure_equation_10(seed: int, *, data: Iterable[object] | None = None) -> Measured:
    """The percentile condition number of 1-shortcut networks at zero, over the number of units."""
    closed = zero_point(*vectors(data, seed=seed), n=1)
    units = (2, 4, 8, 16, 32)
    result = [
        exact_condition_number(
            closed.eigenvalues(u), definition="percentile", percentile=0.1, tolerance=1e-14
        ).value
        for u in units
    ]
    return Measured(
        numbers={"units": units, "condition_numbers": result},
        assumptions=assumption_3(("identity",)),
    )


def equation_10(numbers: Numbers) -> list[Relation]:
    """Growth from each depth to twice that depth, and by four at least from 4 to 32 units."""
    result = numbers["condition_numbers"]
    return [
        *(
            at_most(f"κ at {u} units, over that at {2 * u}", a / b, 1.0)
            for u, a, b in zip(numbers["units"], result, result[1:], strict=False)
        ),
        at_most("κ at 4 units, over that at 32", result[1] / result[-1], 0.25),
    ]


EQUATION_10 = Claim(
    name="shortcut_length.equation_10",
    statement="The condition number of the 1-shortcut network's Hessian at zero grows without "
    "bound with the number of units (text after theorem 2).",
    assumptions=(SMOOTH,),
    tested="|λ|max over the 10th percentile of |λ| at 2 to 32 units, from the closed form.",
    links=(Link(to="shortcut_length.figure_4", check="1-shortcut"),),
    measure=measure_equation_10,
    law=equation_10,
    takes=("data",),
)
