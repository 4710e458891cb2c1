"""Lemmas 3 and 4 and definition 4: derivatives of the loss at zero, of every order needed."""

import math
from collections.abc import Iterable
from itertools import product

import torch
from torch import Tensor, nn

from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.draws import half_squares
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.papers.shortcut_length.claims.assumptions import SMOOTH
from bathyscope.papers.shortcut_length.claims.at_zero import (
    Pair,
    assumption_3,
    at_zero,
    hessian_of,
    vectors,
)
from bathyscope.papers.shortcut_length.claims.zero_hessian import blocks_of

_ROUNDING = 1e-10


def measure_lemma_3(seed: int) -> Measured:
    """Derivatives at zero of order n of n-shortcut networks, n = 2 and 3, with tanh in the middle."""
    result: dict[str, object] = {}
    for n in (2, 3):
        pair = vectors(None, seed=seed, width=2)
        network = at_zero(2, n, width=2, mid="tanh")
        derivatives = _tensor(network, pair, order=n)
        whole = _whole_unit(num_units=2, n=n, width=2)
        result[f"n{n}_must_vanish"] = float(derivatives[~whole].abs().max())
        result[f"n{n}_may_not"] = float(derivatives[whole].abs().max())
    return Measured(numbers=result, assumptions=assumption_3(("tanh",)))


def _tensor(network: nn.Module, pair: Pair, *, order: int) -> Tensor:
    """∂^order L / ∂w…∂w at the network's weights, for all variables."""
    names = [name for name, _ in network.named_parameters()]
    shapes = [p.shape for p in network.parameters()]

    def loss(flat: Tensor) -> Tensor:
        parts = flat.split([shape.numel() for shape in shapes])
        weights = {k: v.view(s) for k, v, s in zip(names, parts, shapes, strict=True)}
        return half_squares(torch.func.functional_call(network, weights, (pair[0],)), pair[1])

    flat = torch.cat([p.detach().flatten() for p in network.parameters()])
    derivative = loss
    for _ in range(order):
        derivative = torch.func.jacrev(derivative)
    return derivative(flat)


def _whole_unit(*, num_units: int, n: int, width: int) -> Tensor:
    """For every tuple of n variables: whether they come from all n layers of one unit."""
    size = width * width
    unit = torch.arange(num_units * n * size) // (n * size)
    layer = torch.arange(num_units * n * size) // size % n
    grids = [torch.meshgrid(*[part] * n, indexing="ij") for part in (unit, layer)]
    units, layers = (torch.stack(grid) for grid in grids)
    one_unit = (units == units[0]).all(dim=0)
    all_layers = layers.sort(dim=0).values == torch.arange(n).view(-1, *[1] * n)
    return one_unit & all_layers.all(dim=0)


def lemma_3(numbers: Numbers) -> list[Relation]:
    """What misses a layer of every unit vanishes."""
    return [
        at_most(
            f"n = {n}: derivatives without a whole unit", numbers[f"n{n}_must_vanish"], _ROUNDING
        )
        for n in (2, 3)
    ]


LEMMA_3 = Claim(
    name="shortcut_length.lemma_3",
    statement="A mixed derivative of the loss at zero is zero unless the variables include one "
    "from every layer of some unit.",
    assumptions=(SMOOTH,),
    tested="All derivatives of order 2 (n = 2) and 3 (n = 3) at zero; those that must "
    "vanish, and those that need not.",
    measure=measure_lemma_3,
    law=lemma_3,
)


def measure_lemma_4(seed: int, *, data: Iterable[object] | None = None) -> Measured:
    """Blocks of Hessians at zero of four units, against those of the first two."""
    pair = vectors(data, seed=seed, width=3)
    errors: dict[str, float] = {}
    for n in (1, 2):
        network = at_zero(4, n, width=pair[0].shape[1], pre="tanh", mid="tanh")
        blocks = blocks_of(hessian_of(network, pair), 4)
        errors[f"n{n}"] = max(
            float((blocks[r, s] - _first(blocks, r, s)).abs().max())
            for r, s in product(range(4), repeat=2)
        )
        errors[f"n{n}_order_ignored"] = float((blocks[1, 0] - blocks[0, 1]).abs().max())
        errors[f"n{n}_unit_ignored"] = float((blocks[1, 0] - blocks[0, 0]).abs().max())
    return Measured(numbers=errors, assumptions=assumption_3(("tanh",)))


def _first(blocks: Tensor, r: int, s: int) -> Tensor:
    return blocks[0, 0] if r == s else blocks[1, 0] if r > s else blocks[0, 1]


def lemma_4(numbers: Numbers) -> list[Relation]:
    """Blocks do not change when both units move on together or apart."""
    return [at_most(f"n = {n}: blocks", numbers[f"n{n}"], _ROUNDING) for n in (1, 2)]


LEMMA_4 = Claim(
    name="shortcut_length.lemma_4",
    statement="Second derivatives at zero depend on two variables' units only through whether "
    "they are one unit or two, and in which order.",
    assumptions=(SMOOTH,),
    tested="All blocks of dense Hessians, n = 1 and n = 2, against those of the first one or "
    "two units.",
    measure=measure_lemma_4,
    law=lemma_4,
    takes=("data",),
)


def measure_definition_4(seed: int, *, data: Iterable[object] | None = None) -> Measured:
    """The order in ε of L(ε w) − L(0), n = 1 to 4, as the median over directions."""
    pair = vectors(data, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    orders = []
    for n in (1, 2, 3, 4):
        slopes = [_slope(pair, n, generator) for _ in range(5)]
        orders.append(sorted(slopes)[2])
    return Measured(
        numbers={"n": (1, 2, 3, 4), "orders": orders}, assumptions=assumption_3(("tanh",))
    )


@torch.no_grad()
def _slope(pair: Pair, n: int, generator: torch.Generator) -> float:
    network = at_zero(3, n, width=pair[0].shape[1], mid="tanh")
    start = float(half_squares(network(pair[0]), pair[1]))
    direction = [torch.randn(p.shape, generator=generator).double() for p in network.parameters()]
    changes = []
    for step in (2e-2, 1e-2):
        for parameter, part in zip(network.parameters(), direction, strict=True):
            parameter.copy_(step * part)
        changes.append(abs(float(half_squares(network(pair[0]), pair[1])) - start))
    return math.log2(changes[0] / changes[1])


def definition_4(numbers: Numbers) -> list[Relation]:
    """The first order that changes is n: zero is stationary to order n − 1 and no further."""
    pairs = zip(numbers["n"], numbers["orders"], strict=True)
    return [equal(f"n = {n}: order of the change", order, n, slack=0.25) for n, order in pairs] + [
        at_least("n = 1: order", numbers["orders"][0], 0.75)
    ]


DEFINITION_4 = Claim(
    name="shortcut_length.definition_4",
    statement="A point is stationary to order k if the function changes by o(‖x − x₀‖^k) "
    "around it; zero is so to order n − 1 for an n-shortcut network.",
    assumptions=(SMOOTH,),
    tested="The order is measured: the slope of log |L(ε w) − L(0)| over log ε along random "
    "directions, n = 1 to 4.",
    measure=measure_definition_4,
    law=definition_4,
    takes=("data",),
)
