"""Corollary 1 and lemma 1: how far a branch of small norm can change the norm of a gradient."""

import math
from collections.abc import Iterable
from statistics import median

import torch
from torch import nn

from bathyscope import measure, nets
from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.draws import loss_for, normal
from bathyscope.claims.reading import numbers_of
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.batch import Batch
from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption, Block
from bathyscope.linalg import conv_singular_values
from bathyscope.nets import ResidualBlock

# Largest slope of each element-wise activation with slopes in [0, c].
SLOPES: dict[type[nn.Module], float] = {
    nn.Identity: 1.0,
    nn.ReLU: 1.0,
    nn.Tanh: 1.0,
    nn.Softplus: 1.0,
    nn.Sigmoid: 0.25,
}


def branch_bound(module: nn.Module, block: Block) -> float | None:
    """δ = Π c_ρ Π ‖W‖₂ of a block, or None where it has not the corollary's form.

    Convolutions count with their norm on the block's own images, an upper bound on it where zero
    padding leaves no closed form.
    """
    if not isinstance(module, ResidualBlock) or not isinstance(module.shortcut, nn.Identity):
        return None
    if any(part is not None for part in (module.entry, module.join, module.post)):
        return None
    layers = module.branch if isinstance(module.branch, nn.Sequential) else [module.branch]
    delta = 1.0
    for layer in layers:
        if type(layer) in SLOPES:
            delta *= SLOPES[type(layer)]
        elif isinstance(layer, nn.Linear):
            delta *= float(torch.linalg.matrix_norm(layer.weight.detach().double(), 2))
        elif isinstance(layer, nn.Conv2d) and set(layer.stride) == {1}:
            delta *= conv_singular_values(layer, block.in_shape[2:]).largest
        else:
            return None
    return delta


def measure_corollary_1(
    seed: int, *, model: nn.Module | None = None, data: Iterable[object] | None = None
) -> Measured:
    """δ and the gradient-norm ratio of every block, of two networks at two scales or of the one given."""
    if model is None:
        pair, networks = _default(seed, data)
    elif data is None:
        raise UsageError("A network of your own needs data: a pair (inputs, targets).")
    else:
        (x, y), networks = data, {"given": model}
        pair = (x, y)
    rows: list[JsonObject] = []
    without = []
    for name, network in networks.items():
        result = measure.gradients(network, pair, loss=loss_for(pair[1]))
        for block, before, after in zip(
            result.blocks,
            numbers_of(result, "norm_in"),
            numbers_of(result, "norm_out"),
            strict=True,
        ):
            delta = branch_bound(network.get_submodule(block.name), block)
            if delta is None:
                without.append(block.name)
                continue
            rows.append(
                {
                    "network": name,
                    "block": block.name,
                    "delta": delta,
                    "ratio": before / after if after else math.nan,
                }
            )
    form = Assumption(
        statement="blocks are an identity plus activations and linear maps "
        f"({len(rows)} are, {len(without)} are not)",
        holds=bool(rows),
        value=len(rows),
    )
    if not rows:
        return Measured(numbers={}, assumptions=(form,))
    loose = [row["delta"] / max(abs(row["ratio"] - 1), 1e-300) for row in rows]
    return Measured(
        numbers={"blocks": rows, "median_looseness": median(loose)},
        assumptions=(form,),
        settings={"left_out": without},
    )


_SCALED = "He × 0.1"


def _default(seed: int, data: Iterable[object] | None) -> tuple[Batch, dict[str, nn.Module]]:
    generator = torch.Generator().manual_seed(seed)
    if data is None:
        x, y = normal(generator, 32, 16), normal(generator, 32, 16)
    else:
        x, y = (torch.as_tensor(part) for part in data)
    width = x.shape[1]
    networks: dict[str, nn.Module] = {}
    for scale in (1.0, 0.1):
        network = nets.build(
            "nshortcut-8-2", width=width, pre="relu", mid="relu", init="he", seed=seed
        ).double()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(scale)
        networks["He" if scale == 1 else _SCALED] = network
    return (x.double(), y.double()), networks


def corollary_1(numbers: Numbers) -> list[Relation]:
    """1 − δ ≤ ‖∂E/∂x_l‖/‖∂E/∂x_{l+1}‖ ≤ 1 + δ for every block: the two nearest to failing."""
    rows = numbers["blocks"]
    low = min(rows, key=lambda row: row["ratio"] - (1 - row["delta"]))
    high = max(rows, key=lambda row: row["ratio"] - (1 + row["delta"]))
    return [
        at_least(
            f"ratio of {low['network']} {low['block']}", low["ratio"], 1 - low["delta"], slack=1e-6
        ),
        at_most(
            f"ratio of {high['network']} {high['block']}",
            high["ratio"],
            1 + high["delta"],
            slack=1e-6,
        ),
    ]


def says_nothing(numbers: Numbers) -> list[Relation]:
    """δ ≥ 1 at every block: the ratio may be anything from 0."""
    return [at_least("smallest δ of the blocks", min(r["delta"] for r in numbers["blocks"]), 1.0)]


def says_something_at_he(numbers: Numbers) -> list[Relation]:
    """δ < 1 at every block of the He start, or of the given network."""
    largest = max(row["delta"] for row in numbers["blocks"] if row["network"] != _SCALED)
    return [at_most("largest δ without the smaller scale", largest, 1.0)]


COROLLARY_1 = Claim(
    name="norm_preservation.corollary_1",
    formula=r"\delta = c_\rho^2\,\|W^1\|_2\,\|W^2\|_2",
    statement="A block x + W² ρ(W¹ ρ(x)) changes gradient norms by no more than a factor "
    "1 ± δ, δ = c_ρ² ‖W¹‖₂ ‖W²‖₂.",
    assumptions=(
        "identity shortcuts, and branches of activations and linear maps only",
        "the slope of ρ lies in [0, c_ρ]",
    ),
    tested="Measured gradient-norm ratios of every block against δ, with how loose the bound is: most "
    "favorably at weights of a tenth of He's scale, small as the theorem's branches are; in general at "
    "He's scale, where δ is above 1 and the bound says nothing; or of your own network.",
    measure=measure_corollary_1,
    law=corollary_1,
    law_strict=says_something_at_he,
    vacuous=says_nothing,
    takes=("model", "data"),
)


def measure_lemma_1(seed: int, *, singular: bool = False) -> Measured:
    """Extreme singular values of M and I + M for random M of eight scales, five each.

    With `singular`, M = −I is among them, which breaks the assumption.
    """
    generator = torch.Generator().manual_seed(seed)
    eye = torch.eye(8, dtype=torch.float64)
    matrices = [
        10 ** (-2 + 3 * i / 7) * normal(generator, 8, 8) / 8**0.5
        for i in range(8)
        for _ in range(5)
    ]
    matrices += [-eye] if singular else []
    rows = []
    for M in matrices:
        shifted = torch.linalg.svdvals(eye + M)
        rows.append(
            {
                "norm": float(torch.linalg.matrix_norm(M, 2)),
                "smallest": float(shifted[-1]),
                "largest": float(shifted[0]),
            }
        )
    minimum = min(row["smallest"] for row in rows)
    return Measured(
        numbers={"matrices": rows},
        assumptions=(
            Assumption(
                statement="I + M is non-singular (smallest σ)", holds=minimum > 1e-12, value=minimum
            ),
        ),
    )


def lemma_1(numbers: Numbers) -> list[Relation]:
    """Both bounds, each where it is nearest to failing."""
    rows = numbers["matrices"]
    low = min(rows, key=lambda row: row["smallest"] - (1 - row["norm"]))
    high = max(rows, key=lambda row: row["largest"] - (1 + row["norm"]))
    return [
        at_least("σ_min(I + M)", low["smallest"], 1 - low["norm"], slack=1e-12),
        at_most("σ_max(I + M)", high["largest"], 1 + high["norm"], slack=1e-12),
    ]


LEMMA_1 = Claim(
    name="norm_preservation.lemma_1",
    formula=r"1-\sigma_{\max}(M) \le \sigma_{\min}(I+M) \le \sigma_{\max}(I+M) \le "
    r"1+\sigma_{\max}(M)",
    statement="1 − σ_max(M) ≤ σ_min(I + M) ≤ σ_max(I + M) ≤ 1 + σ_max(M).",
    assumptions=("I + M is non-singular",),
    tested="Random matrices at scales from 0.01 to 10; the worst margins.",
    definition="a fact of textbooks",
    measure=measure_lemma_1,
    law=lemma_1,
    takes=("singular",),
)
