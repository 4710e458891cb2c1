"""The maps that the networks are: equation 1 and definition 1; and equation 3's Hessian."""

import torch

from bathyscope import nets
from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.reading import linear_layers
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.linalg import conditioning_of
from bathyscope.nets import Network
from bathyscope.papers.shortcut_length.claims.at_zero import (
    at_zero,
    hessian_of,
    vectors,
)
from bathyscope.papers.shortcut_length.claims.zero_hessian import blocks_of

_ROUNDING = 1e-10


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
    measure=measure_definition_1,
    law=equation_1,
)


def measure_equation_3(seed: int) -> Measured:
    """Hessians at zero of units with bias: with ReLU as printed, and with tanh in place of it."""
    pair = vectors(None, seed=seed, width=3)
    alone, whole, off = [], [], []
    printed = at_zero(2, 2, width=3, mid="relu", bias=True)
    for units in (2, 4):
        network = at_zero(units, 2, width=3, mid="tanh", bias=True)
        matrix = hessian_of(network, pair)
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
    return Measured(
        numbers={
            "between_units": max(off),
            "condition_in_weights": alone,
            "condition_with_biases": whole,
            "largest_entry_with_relu": float(hessian_of(printed, pair).abs().max()),
        },
        settings={"units": (2, 4), "mid": ("relu", "tanh")},
    )


def equation_3(numbers: Numbers) -> list[Relation]:
    """With ReLU a Hessian that is not zero; one finite condition number for all depths."""
    shallow, deep = numbers["condition_with_biases"]
    return [
        at_least("ReLU: largest entry of the Hessian", numbers["largest_entry_with_relu"], 1e-6),
        at_most("entries between units", numbers["between_units"], _ROUNDING),
        at_most("condition number with biases", shallow, 1e12),
        equal("condition number with biases at two depths", deep, shallow, slack=1e-6 * shallow),
    ]


def equation_3_in_weights(numbers: Numbers) -> list[Relation]:
    """The same, with the biases held."""
    shallow, deep = numbers["condition_in_weights"]
    return [
        at_most("entries between units", numbers["between_units"], _ROUNDING),
        at_most("condition number in the weights", shallow, 1e12),
        equal("condition number in the weights at two depths", deep / shallow, 1.0, slack=1e-6),
        at_least("condition number with biases", numbers["condition_with_biases"][0], 1e12),
    ]


EQUATION_3 = Claim(
    name="shortcut_length.equation_3",
    formula=r"y = \prod_{r=1}^{R}\bigl(W^{r,2}\,\mathrm{ReLU}(W^{r,1}x + b_r) + I\bigr)",
    statement="The network of theorem 1, whose units have ReLU and a bias, has at zero a Hessian of "
    "the form of theorem 2, so that its condition number does not depend on the depth.",
    tested="Exact Hessians at zero of units with bias: with ReLU, as printed, where every entry is "
    "zero; with tanh at two depths, the off-diagonal form, and the condition number with and "
    "without the biases among the variables.",
    measure=measure_equation_3,
    law=equation_3,
    under="an activation with a derivative at zero in place of ReLU, whose Hessian there is zero, and "
    "derivatives in the weights alone: with the biases among the variables the off-diagonal "
    "blocks are not square, and the Hessian is singular at every depth",
    law_under=equation_3_in_weights,
)
