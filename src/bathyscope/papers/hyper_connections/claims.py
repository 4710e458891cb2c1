"""Products of mixing matrices over depth: free ones amplify, doubly stochastic ones do not."""

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most

STREAMS, DEPTH = 4, 60


def doubly_stochastic(logits: Float[Tensor, " n n"]) -> Float[Tensor, " n n"]:
    """Sinkhorn's iteration, until it stands: rows and columns of exp(logits) divided by their sums.

    A few steps, as are usual in training, leave sums that are off by 1e-3 in some matrices.
    """
    result = logits.exp()
    for _ in range(5000):
        result = result / result.sum(dim=1, keepdim=True)
        result = result / result.sum(dim=0, keepdim=True)
        if float((result.sum(dim=1) - 1).abs().max()) < 1e-13:
            break
    return result


def mixed(kind: str, depth: int, *, seed: int, spread: float = 0.3) -> Float[Tensor, " n n"]:
    """The product of `depth` mixing matrices: "free" (I + noise) or "doubly stochastic"."""
    generator = torch.Generator().manual_seed(seed)
    eye = torch.eye(STREAMS, dtype=torch.float64)
    whole = eye
    for _ in range(depth):
        noise = normal(generator, STREAMS, STREAMS)
        own = eye + spread * noise if kind == "free" else doubly_stochastic(3 * eye + noise)
        whole = own @ whole
    return whole


def gain(matrix: Float[Tensor, " n n"]) -> float:
    """The largest sum of magnitudes of a row: how much a stream can grow."""
    return float(matrix.abs().sum(dim=1).max())


def measure_products(seed: int) -> Measured:
    """Gains after 60 matrices of both kinds, sums of the doubly stochastic product, and its σ_2."""
    free, bound = (mixed(kind, DEPTH, seed=seed) for kind in ("free", "doubly stochastic"))
    values = torch.linalg.svdvals(bound)
    sums = torch.cat([bound.sum(dim=0), bound.sum(dim=1)])
    return Measured(
        numbers={
            "free_gain": gain(free),
            "bound_gain": gain(bound),
            "bound_norm": float(values[0]),
            "error_of_sums": float((sums - 1).abs().max()),
            "second_over_first": float(values[1] / values[0]),
        },
        settings={"streams": STREAMS, "depth": DEPTH},
    )


def closed(numbers: Numbers) -> list[Relation]:
    """The product is doubly stochastic, and amplifies nothing."""
    return [
        at_most("sums of rows and columns less one", numbers["error_of_sums"], 1e-9),
        at_most("norm of the product", numbers["bound_norm"], 1.0, slack=1e-9),
        at_most("gain of the product", numbers["bound_gain"], 1.0, slack=1e-9),
    ]


def keeps_streams_apart(numbers: Numbers) -> list[Relation]:
    """Streams remain different: the second singular value of the product is not rounding."""
    return [at_least("σ_2 over σ_1 of the product", numbers["second_over_first"], 1e-2)]


CLOSED = Claim(
    name="hyper_connections.closed",
    statement="Products of doubly stochastic matrices are doubly stochastic, so that no depth amplifies.",
    tested="Sums, norm and gain of a product of 60. In a stricter reading, that the streams are also kept "
    "apart, it is not so: the product tends to the mean over the streams, and only branches tell them apart.",
    definition="a fact of textbooks",
    measure=measure_products,
    law=closed,
    law_strict=keeps_streams_apart,
)


def amplifies(numbers: Numbers) -> list[Relation]:
    """Free matrices amplify by two orders, doubly stochastic ones by none."""
    return [
        at_least("free: gain after 60 matrices", numbers["free_gain"], 100),
        at_most(
            "doubly stochastic: gain after 60 matrices", numbers["bound_gain"], 1.0, slack=1e-9
        ),
    ]


AMPLIFIES = Claim(
    name="hyper_connections.amplifies",
    statement="Without the constraint the mixing of streams amplifies signals by orders of magnitude over "
    "depth; with it it does not.",
    tested="The largest gain of a stream after 60 random matrices near the identity (entries of 0.3) and "
    "after 60 doubly stochastic ones.",
    measure=measure_products,
    law=amplifies,
    empirical=True,
    links=(Link(to="hyper_connections.figure_1", check="free mixing"),),
)

CLAIMS = (CLOSED, AMPLIFIES)
