"""Theorem 2 and remarks 1 to 3: what becomes of representations in deep linear networks."""

import math
from dataclasses import replace
from statistics import mean

import torch

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.reading import linear_layers
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.papers.singularity.claims.assumptions import LINEAR
from bathyscope.papers.singularity.claims.depth import (
    BLOCKS,
    SCALED,
    WIDTH,
    Kind,
    batch_for,
    drawn,
    is_linear,
    spectra,
    summary,
    top_fraction,
)

_LAYERS = 2000  # (σ_2/σ_1)^{2m} must be small: their gap can be a few thousandths
_NARROW = 8  # the gap of the first two growth rates falls as 1/n: at 8 it shows within 82 blocks


def measure_plain(seed: int) -> Measured:
    """A plain network: direction and size of its last representation, and the top share over depth."""
    network = drawn("plain", BLOCKS, seed=seed, width=_NARROW)
    batch = batch_for(seed, width=_NARROW)
    result = spectra(network, batch)
    with torch.no_grad():
        out = network(batch[0])[0]
        cosines, sizes = [], []
        for block in network.blocks:
            first, second = (layer.weight for layer in linear_layers(block))
            U, values, _ = torch.linalg.svd(second @ first)
            cosines.append(abs(float(U[:, 0] @ out) / float(out.norm())))
            predicted = math.log10(abs(float(U[:, 0] @ batch[0][0])))
            sizes.append(predicted + 2 * BLOCKS * math.log10(float(values[0])))
    return Measured(
        numbers={
            "mean_cosine_with_u1": mean(cosines),
            "log10_size": math.log10(float(out.norm())),
            "log10_size_by_formula": mean(sizes),
            "top_fraction": {
                blocks: top_fraction(result[blocks - 1]) for blocks in (1, 10, BLOCKS)
            },
            "last": summary(result[-1]),
        },
        assumptions=(is_linear(network),),
        settings={"width": _NARROW, "blocks": BLOCKS},
    )


def measure_theorem_2(seed: int) -> Measured:
    """The plain network as drawn, and one all of whose layers are W = BBᵀ with σ and u of B."""
    general = measure_plain(seed)
    generator = torch.Generator().manual_seed(seed)
    B = normal(generator, _NARROW, _NARROW)
    U, values, _ = torch.linalg.svd(B)
    x = normal(generator, _NARROW)
    # Divided by σ_1² a layer, so that nothing leaves the numbers: the formula is then α_1 u_1.
    W, h = B @ B.T / values[0].square(), x
    for _ in range(_LAYERS):
        h = W @ h
    formula = (U[:, 0] @ x) * U[:, 0]
    return replace(
        general,
        numbers={
            **general.numbers,
            "symmetric_error": float((h - formula).norm() / formula.norm()),
        },
        settings={**general.settings, "layers of W = BBᵀ": _LAYERS},
    )


def theorem_2(numbers: Numbers) -> list[Relation]:
    """The last representation lies along u_1 and has the size |α_1| σ_1^{2m}."""
    return [
        at_least("mean |cosine| with u_1 of a layer", numbers["mean_cosine_with_u1"], 0.99),
        equal(
            "log₁₀ of its size", numbers["log10_size"], numbers["log10_size_by_formula"], slack=1.0
        ),
    ]


def theorem_2_symmetric(numbers: Numbers) -> list[Relation]:
    """With W = BBᵀ the formula; with other W one common direction, which is not u_1."""
    error = numbers["symmetric_error"]
    return [at_most("W = BBᵀ: relative error of h^m", error, 1e-6), *collapse(numbers)]


def collapse(numbers: Numbers) -> list[Relation]:
    """The fraction of one direction tends to one with depth."""
    fraction = numbers["top_fraction"]
    return [
        at_least("fraction of the top direction at 82 blocks", fraction[BLOCKS], 0.99),
        at_most("that at 1 block", fraction[1], 0.9),
    ]


THEOREM_2 = Claim(
    name="singularity.theorem_2",
    formula=r"h^m \to \alpha_1 \sigma_1^{2m} u_1",
    statement="In a deep linear plain network h^m → α_1 σ_1^{2m} u_1, with σ_1, u_1 of a layer.",
    assumptions=(LINEAR,),
    tested="Most favorably, with equal layers W = BBᵀ and σ and u of B, as in lemma 2: the last "
    "representation against the formula. In general, with independent layers: its direction and size "
    "against the formula, and the fraction of its largest direction over depth.",
    measure=measure_theorem_2,
    law=theorem_2,
    under="equal layers W = BBᵀ, with σ_1 and u_1 those of B, as the proof takes them from lemma 2. With "
    "independent layers all representations of a batch still tend to one common direction "
    "(σ_1²/Σσ² → 1), but direction and growth are those of the whole product",
    law_under=theorem_2_symmetric,
    links=(Link(to="singularity.lemma_2"), Link(to="singularity.remark_1")),
)


def remark_1(numbers: Numbers) -> list[Relation]:
    """Collinear columns, and no finite condition number."""
    last = numbers["last"]
    return [
        *collapse(numbers),
        equal("κ(H) at 82 blocks", last["condition_number"], math.inf),
        at_most("numerical rank", last["rank"], _NARROW - 1),
    ]


REMARK_1 = Claim(
    name="singularity.remark_1",
    statement="In a deep plain network the columns of H become collinear and H singular.",
    assumptions=(LINEAR,),
    tested="Fraction of the first singular value and condition number of H over depth.",
    links=(
        Link(to="singularity.figure_13", check="PlainNet: infinite"),
        Link(to="singularity.remark_7"),
    ),
    measure=measure_plain,
    law=remark_1,
)


def measure_skips(seed: int, kind: Kind) -> Measured:
    """Rank of H at 82 blocks, as drawn and scaled; growth of κ at 5 blocks beside a plain network."""
    batch = batch_for(seed)
    network = drawn(kind, BLOCKS, seed=seed)
    scaled = drawn(kind, BLOCKS, seed=seed, scale=SCALED / _paths(kind))
    shallow: dict[Kind, list[float]] = {"plain": [], kind: []}
    for name, result in shallow.items():
        for draw in range(5):
            last = spectra(
                drawn(name, 5, seed=100 * seed + draw, width=_NARROW),
                batch_for(100 * seed + draw, width=_NARROW),
            )[-1]
            result.append(math.log10(last.condition_number))
    return Measured(
        numbers={
            "as_drawn": summary(spectra(network, batch)[-1]),
            "scaled": summary(spectra(scaled, batch)[-1]),
            "log10_condition_at_5_blocks": {name: mean(result) for name, result in shallow.items()},
        },
        assumptions=(is_linear(network),),
        settings={"width": WIDTH, "blocks": BLOCKS, "scale": SCALED},
    )


def _paths(kind: Kind) -> int:
    """Paths that a branch sums: four aggregated ones have twice the size of one."""
    return 2 if kind == "aggregated" else 1


def keeps_all(numbers: Numbers) -> list[Relation]:
    """Full rank at 82 blocks, as drawn."""
    return [equal("as drawn: numerical rank of H", numbers["as_drawn"]["rank"], WIDTH)]


def keeps_all_scaled(numbers: Numbers) -> list[Relation]:
    """Full rank and a moderate condition number with scaled branches; slower loss without."""
    plain, skip = numbers["log10_condition_at_5_blocks"].values()
    return [
        equal("scaled: numerical rank of H", numbers["scaled"]["rank"], WIDTH),
        at_most("scaled: κ(H)", numbers["scaled"]["condition_number"], 100),
        at_most("as drawn, 5 blocks: log₁₀ κ, over the plain network's", skip / plain, 1.0),
    ]


_UNDER = (
    "branches small enough for the depth (here scaled by 0.1 at 82 blocks): as drawn, directions "
    "fade at rates of their own with skips too, only more slowly"
)

REMARK_2 = Claim(
    name="singularity.remark_2",
    statement="In a deep residual network no direction vanishes and H is non-singular.",
    assumptions=(LINEAR,),
    tested="Numerical rank of H at 82 blocks, with branches as drawn and scaled by 0.1; "
    "growth of κ with and without skips at 5 blocks.",
    links=(Link(to="singularity.figure_13", check="ResNet: no infinite"),),
    measure=lambda seed: measure_skips(seed, "residual"),
    law=keeps_all,
    under=_UNDER,
    law_under=keeps_all_scaled,
)
REMARK_3 = Claim(
    name="singularity.remark_3",
    statement="In a deep aggregated network no direction vanishes and H is non-singular.",
    assumptions=(LINEAR,),
    tested="As remark 2, with four paths.",
    links=(Link(to="singularity.figure_13", check="ResNeXt: no infinite"),),
    measure=lambda seed: measure_skips(seed, "aggregated"),
    law=keeps_all,
    under=_UNDER,
    law_under=keeps_all_scaled,
)
