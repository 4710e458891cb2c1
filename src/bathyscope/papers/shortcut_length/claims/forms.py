"""The maps that the networks are: equation 1 and definition 1; and equation 3's Hessian."""

from collections.abc import Iterator
from statistics import mean

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope import nets
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import half_squares, normal
from bathyscope.claims.reading import linear_layers
from bathyscope.claims.relation import Relation, at_most, equal
from bathyscope.linalg import conditioning_of
from bathyscope.nets import Network
from bathyscope.papers.shortcut_length.claims.at_zero import Pair, at_zero, hessian_of, vectors
from bathyscope.papers.shortcut_length.claims.zero_hessian import blocks_of

_ROUNDING = 1e-10
_DEPTHS = (1, 2, 4)


@torch.no_grad()
def _product(network: Network, *, shortcut: bool = True) -> torch.Tensor:
    """The product of the units' matrices, last unit to the left."""
    whole: torch.Tensor | None = None
    for block in network.blocks:
        unit: torch.Tensor | None = None
        for layer in linear_layers(block):
            unit = layer.weight if unit is None else layer.weight @ unit
        assert unit is not None
        if shortcut:
            fixed = getattr(block.shortcut, "matrix", None)
            eye = torch.eye(unit.shape[1], dtype=unit.dtype)
            unit = unit + (eye if fixed is None else fixed)
        whole = unit if whole is None else unit @ whole
    assert whole is not None
    return whole


def measure_equation_1(seed: int) -> Measured:
    """A network with units of several widths and depths and with fixed shortcuts."""
    generator = torch.Generator().manual_seed(seed)
    fixed = torch.randn(3, 5, generator=generator)
    network = nets.general_shortcut(
        [[5, 7, 5], [5, 3], [3, 4, 4, 3]], ["identity", fixed, "identity"]
    )
    network = network.double()
    x = torch.randn(20, 5, generator=generator).double()
    with torch.no_grad():
        out = network(x)
    return Measured(
        numbers={
            "error": float((out - x @ _product(network).T).abs().max()),
            "error_without_shortcuts": float(
                (out - x @ _product(network, shortcut=False).T).abs().max()
            ),
        }
    )


def equation_1(numbers: Numbers) -> list[Relation]:
    """The output is the product's."""
    return [at_most("difference of the outputs", numbers["error"], _ROUNDING)]


EQUATION_1 = Claim(
    name="shortcut_length.equation_1",
    formula=r"y = \prod_{r=1}^{R}\Bigl(\prod_{l=1}^{n_r} W^{r,l} + S^r\Bigr) x",
    statement="A linear network with shortcuts S^r is the map y = ∏_r (∏_l W^{r,l} + S^r) x.",
    tested="The output of a network with units of several widths and fixed shortcuts against "
    "the product "
    "of its matrices.",
    definition="an identity of the implementation",
    measure=measure_equation_1,
    law=equation_1,
)


def measure_definition_1(seed: int) -> Measured:
    """n-shortcut networks as they are built, n = 1, 2, 3."""
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(seed)).double()
    errors, without = [], []
    for n in (1, 2, 3):
        network = nets.build(f"nshortcut-4-{n}", width=4, seed=seed).double()
        assert isinstance(network, Network)
        with torch.no_grad():
            out = network(x)
        errors.append(float((out - x @ _product(network).T).abs().max()))
        without.append(float((out - x @ _product(network, shortcut=False).T).abs().max()))
    return Measured(numbers={"error": max(errors), "error_without_shortcuts": min(without)})


DEFINITION_1 = Claim(
    name="shortcut_length.definition_1",
    formula=r"y = \prod_{r=1}^{R}\Bigl(\prod_{l=1}^{n} W^{r,l} + I\Bigr) x",
    statement="An n-shortcut linear network has equal widths and identity shortcuts over n "
    "layers each; it is the map y = ∏_r (∏_l W^{r,l} + I) x (equation 2).",
    tested="The output of n-shortcut networks, n = 1, 2, 3, against the product of their matrices.",
    definition="an identity of the implementation",
    measure=measure_definition_1,
    law=equation_1,
)


def measure_equation_3(seed: int) -> Measured:
    """Units with bias at zero: second differences with ReLU, and the Hessian with its local polynomial.

    The polynomial has the slope ½ at zero. The second difference along ±u is then half of that of
    the linear network, while those along u and along −u differ: with ReLU there is no Hessian.
    """
    pair = vectors(None, seed=seed, width=3)
    alone, whole, off = [], [], []
    errors, gaps = [], []
    for units in _DEPTHS:
        network = at_zero(units, 2, width=3, bias=True)
        matrix = hessian_of(network, pair) / 2  # at zero it is linear in the slope at mid
        is_bias = torch.cat(
            [
                torch.full((p.numel(),), name.endswith("bias"))
                for name, p in network.named_parameters()
            ]
        )
        weights = matrix[~is_bias][:, ~is_bias]
        blocks = blocks_of(weights, units).clone()
        blocks[range(units), range(units)] = 0
        off.append(float(blocks.abs().max()))
        alone.append(conditioning_of(weights).condition_number)
        whole.append(conditioning_of(matrix).condition_number)
        for error, gap in _second_differences(units, pair, matrix, seed=seed):
            errors.append(error)
            gaps.append(gap)
    return Measured(
        numbers={
            "between_units": max(off),
            "condition_in_weights": alone,
            "condition_with_biases": whole,
            "second_difference_error": max(errors),
            "gap_of_the_two_sides": max(gaps),
        },
        settings={"units": _DEPTHS, "mid": "relu", "slope of its polynomial": 0.5},
    )


@torch.no_grad()
def _second_differences(
    units: int, pair: Pair, matrix: Float[Tensor, " D D"], *, seed: int
) -> Iterator[tuple[float, float]]:
    """With ReLU, along eight directions u: error of uᵀHu, and the gap of u and −u, over ‖H‖‖u‖²."""
    network = at_zero(units, 2, width=3, mid="relu", bias=True)
    generator = torch.Generator().manual_seed(seed)
    start, step = float(half_squares(network(pair[0]), pair[1])), 1e-4
    size = float(torch.linalg.matrix_norm(matrix, 2))
    for _ in range(8):
        u = normal(generator, len(matrix))
        sides = []
        for sign in (step, -step):
            nn.utils.vector_to_parameters(sign * u, network.parameters())
            change = float(half_squares(network(pair[0]), pair[1])) - start
            sides.append(2 * change / step**2)
        scale = size * float(u.square().sum())
        yield abs(mean(sides) - float(u @ matrix @ u)) / scale, abs(sides[0] - sides[1]) / scale


def equation_3(numbers: Numbers) -> list[Relation]:
    """With ReLU itself a Hessian; with the biases among the variables a finite condition number."""
    return [
        at_most(
            "ReLU: second differences along u and −u, gap", numbers["gap_of_the_two_sides"], 1e-4
        ),
        at_most("entries between units", numbers["between_units"], _ROUNDING),
        at_most("condition number with biases", min(numbers["condition_with_biases"]), 1e12),
    ]


def equation_3_in_weights(numbers: Numbers) -> list[Relation]:
    """With the local polynomial and in the weights: one condition number at every depth."""
    first, *others = numbers["condition_in_weights"]
    return [
        at_most("entries between units", numbers["between_units"], _ROUNDING),
        at_most("condition number in the weights, 1 unit", first, 1e12),
        *(
            equal(f"the same over that, {units} units", value / first, 1.0, slack=1e-6)
            for units, value in zip(_DEPTHS[1:], others, strict=True)
        ),
        at_most("ReLU: symmetric second differences", numbers["second_difference_error"], 1e-4),
    ]


EQUATION_3 = Claim(
    name="shortcut_length.equation_3",
    formula=r"y = \prod_{r=1}^{R}\bigl(W^{r,2}\,\mathrm{ReLU}(W^{r,1}x + b_r) + I\bigr)",
    statement="The network of theorem 1, whose units have ReLU and a bias, has at zero a Hessian of "
    "the form of theorem 2, so that its condition number does not depend on the depth.",
    tested="Most favorably, with the paper's local polynomial of ReLU (slope ½), which the symmetric "
    "second differences of the network with ReLU follow, and in the weights: form and condition number "
    "at three depths. In general: whether second differences along u and −u agree, and the condition "
    "number with the biases among the variables.",
    measure=measure_equation_3,
    law=equation_3,
    under="the local polynomial that the paper concedes for ReLU, and derivatives in the weights alone. "
    "With ReLU itself second differences along u and −u differ, so that there is no Hessian; with the "
    "biases among the variables the off-diagonal blocks are not square, and the matrix is singular at "
    "every depth",
    law_under=equation_3_in_weights,
    links=(Link(to="shortcut_length.theorem_2"),),
)
