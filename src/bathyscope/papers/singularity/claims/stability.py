"""Proposition 2, corollary 2 and remarks 7 to 9: how a solution answers changes of the representation."""

import math
from functools import cache
from statistics import mean

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption
from bathyscope.linalg import conditioning_of
from bathyscope.papers.singularity.claims.assumptions import LINEAR
from bathyscope.papers.singularity.claims.depth import (
    BLOCKS,
    SCALED,
    Kind,
    batch_for,
    drawn,
    is_linear,
    spectra,
)


def solution(H: Float[Tensor, " n N"], Y: Float[Tensor, " c N"]) -> Float[Tensor, " c n"]:
    """θ with the smallest ‖Y − θH‖, without any tolerance."""
    U, sizes, Vh = torch.linalg.svd(H, full_matrices=False)
    result: Tensor = Y @ Vh.T / sizes @ U.T
    return result


def relative_change(H: Tensor, changed: Tensor, Y: Tensor) -> tuple[float, float]:
    """‖Δθ‖/‖θ‖ and ‖ΔH‖/‖H‖, in the spectral norm."""
    before, after = solution(H, Y), solution(changed, Y)
    norm = torch.linalg.matrix_norm
    return (
        float(norm(after - before, 2) / norm(before, 2)),
        float(norm(changed - H, 2) / norm(H, 2)),
    )


def measure_proposition_2(seed: int) -> Measured:
    """Relative changes of the solution over their bound, in three settings; the worst of each."""
    generator = torch.Generator().manual_seed(seed)
    worst = {"small": 0.0, "large": 0.0, "inconsistent": 0.0}
    for _ in range(20):
        H, theta = normal(generator, 6, 20), normal(generator, 3, 6)
        U, sizes, Vh = torch.linalg.svd(H, full_matrices=False)
        kappa = conditioning_of(H).condition_number
        noise = normal(generator, 6, 20)
        toward = -torch.outer(U[:, -1], Vh[-1]) * sizes[-1]  # removes the smallest direction
        along = theta.T @ theta @ U[:, -1:] @ U[:, -1:].T @ H
        outside = normal(generator, 3, 20) * 1e4  # labels that no θ can meet
        outside = outside - outside @ Vh.T @ Vh
        trials = {
            "small": [(theta @ H, H + 1e-7 * noise), (theta @ H, H + 1e-7 * along)],
            "large": [(theta @ H, H + 0.9 * toward)],
            "inconsistent": [(theta @ H + outside, H + 1e-7 * noise)],
        }
        for name, pairs in trials.items():
            for Y, changed in pairs:
                answer, cause = relative_change(H, changed, Y)
                worst[name] = max(worst[name], answer / (kappa * cause))
    return Measured(numbers={"over_bound": worst}, settings={"n": 6, "N": 20, "draws": 20})


def proposition_2(numbers: Numbers) -> list[Relation]:
    """The bound holds for any change and any labels."""
    return [
        at_most(f"{name}: change over its bound", value, 1.0, slack=1e-4)
        for name, value in numbers["over_bound"].items()
    ]


def proposition_2_first_order(numbers: Numbers) -> list[Relation]:
    """It holds for small changes and labels that fit; else it can be exceeded."""
    worst = numbers["over_bound"]
    return [
        at_most("small: change over its bound", worst["small"], 1.0, slack=1e-4),
        at_least("large: change over its bound", worst["large"], 1.0),
        at_least("inconsistent: change over its bound", worst["inconsistent"], 1.0),
    ]


PROPOSITION_2 = Claim(
    name="singularity.proposition_2",
    formula=r"\frac{\|\delta W\|}{\|W\|} \le \kappa(H)\,\frac{\|\delta H\|}{\|H\|}",
    statement="A relative change of the representation changes the learned solution, "
    "relatively, by at most κ(H) times as much.",
    tested="Least-squares solutions before and after changes of H: small ones with "
    "consistent labels, large "
    "ones, and small ones with inconsistent labels.",
    measure=measure_proposition_2,
    law=proposition_2,
    under="changes small against σ_min(H) (first order), and labels with Y = θH exactly; with a "
    "residual κ² enters",
    law_under=proposition_2_first_order,
)


def _amplification(kind: Kind, *, seed: int, scale: float = 1.0) -> dict[str, float]:
    """κ(H) at the last block, and relative change of the solution over that of the input."""
    network = drawn(kind, BLOCKS, seed=seed, scale=scale)
    x, y = batch_for(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        H, changed = network(x).T, network(x + 1e-10 * normal(generator, *x.shape)).T
    scale_of_H = float(torch.linalg.matrix_norm(H, 2))
    answer, _ = relative_change(H / scale_of_H, changed / scale_of_H, y.T)
    return {
        "condition_number": spectra(network, (x, y))[-1].condition_number,
        "amplification": answer / 1e-10,
    }


def measure_plain(seed: int) -> Measured:
    """A deep plain network: κ(H), and what a change of the input by 1e-10 does to the solution."""
    return Measured(
        numbers=_amplification("plain", seed=seed),
        assumptions=(is_linear(drawn("plain", BLOCKS, seed=seed)),),
        settings={"blocks": BLOCKS, "change": 1e-10},
    )


def remark_7(numbers: Numbers) -> list[Relation]:
    """No finite κ, and an extreme answer."""
    return [
        equal("κ(H)", numbers["condition_number"], math.inf),
        at_least("amplification", numbers["amplification"], 1e6),
    ]


REMARK_7 = Claim(
    name="singularity.remark_7",
    statement="In a deep plain network κ(H) is infinite, so that tiny changes of the input "
    "change the solution extremely.",
    assumptions=(LINEAR,),
    tested="κ(H) of a deep plain network, and the amplification of a change of 1e-10.",
    measure=measure_plain,
    law=remark_7,
)


def measure_skips(seed: int) -> Measured:
    """Deep residual and aggregated networks, as drawn and with scaled branches."""
    result: dict[str, object] = {}
    scales: dict[Kind, float] = {"residual": SCALED, "aggregated": SCALED / 2}
    for kind, scale in scales.items():
        result[kind] = _amplification(kind, seed=seed)
        result[f"{kind}, scaled"] = _amplification(kind, seed=seed, scale=scale)
    return Measured(
        numbers=result,
        assumptions=(is_linear(drawn("residual", BLOCKS, seed=seed)),),
        settings={"blocks": BLOCKS, "change": 1e-10},
    )


def remark_8(numbers: Numbers) -> list[Relation]:
    """A finite κ and a moderate answer, as drawn."""
    return _moderate(numbers, ("residual", "aggregated"))


def remark_8_scaled(numbers: Numbers) -> list[Relation]:
    """The same with scaled branches."""
    return _moderate(numbers, ("residual, scaled", "aggregated, scaled"))


def _moderate(numbers: Numbers, names: tuple[str, ...]) -> list[Relation]:
    return [
        relation
        for name in names
        for relation in (
            at_most(f"{name}: κ(H)", numbers[name]["condition_number"], 1e3),
            at_most(f"{name}: amplification", numbers[name]["amplification"], 1e3),
        )
    ]


REMARK_8 = Claim(
    name="singularity.remark_8",
    statement="In deep residual and aggregated networks κ(H) is finite, so that small changes "
    "of the input change the solution little.",
    assumptions=(LINEAR,),
    tested="κ(H) and the amplification of a change of 1e-10 at 82 blocks, with branches as "
    "drawn and scaled by 0.1.",
    measure=measure_skips,
    law=remark_8,
    under="branches small enough for the depth (here scaled by 0.1 at 82 blocks)",
    law_under=remark_8_scaled,
)

_WIDE, _SLIM, _MANY = 32, 16, 64  # n, q and N
_DEPTH, _DRAWS, _MORE_DRAWS = 8, 10, 80
_EQUAL = 0.5
"""What divides the branches of four aggregated paths to the variance of one."""


@cache
def measure_sizes(seed: int) -> Measured:
    """Mean log₁₀ of κ and of the amplification, for two sizes of H: Gaussian, and in networks.

    κ of the networks is reported after each of eight blocks, the amplification after the last; of
    networks with branches of equal variance, and as they are drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    numbers: JsonObject = {"gaussian": {}, "networks": {}, "amplification": {}}
    sizes: dict[Kind, int] = {"residual": _WIDE, "aggregated": _SLIM}
    for kind, size in sizes.items():
        free, depths, gaussian_answers, network_answers = [], [], [], []
        for draw in range(_DRAWS):
            own = _DRAWS * seed + draw
            H = normal(generator, size, _MANY)
            free.append(math.log10(conditioning_of(H).condition_number))
            gaussian_answers.append(_log_answer(H, generator))
            network = drawn(kind, _DEPTH, seed=own, width=size)
            batch = batch_for(own, width=size, samples=_MANY)
            depths.append([math.log10(c.condition_number) for c in spectra(network, batch)])
            with torch.no_grad():
                network_answers.append(_log_answer(network(batch[0]).T, generator))
        numbers["gaussian"][kind] = mean(free)
        numbers["networks"][kind] = [mean(column) for column in zip(*depths, strict=True)]
        numbers["amplification"][kind] = {
            "gaussian": mean(gaussian_answers),
            "network": mean(network_answers),
        }
    numbers["equal_variance"] = {
        "residual": _equal_variance("residual", _WIDE, 1.0, seed=seed),
        "aggregated": _equal_variance("aggregated", _SLIM, _EQUAL, seed=seed),
    }
    return Measured(
        numbers=numbers,
        assumptions=(Assumption(statement="q < n < N", holds=_SLIM < _WIDE < _MANY, value=_SLIM),),
        settings={"n": _WIDE, "q": _SLIM, "N": _MANY, "paths": 4, "draws": (_DRAWS, _MORE_DRAWS)},
    )


def _equal_variance(kind: Kind, size: int, scale: float, *, seed: int) -> JsonObject:
    """Mean log₁₀ κ after every block and its standard error, and mean log₁₀ of the amplification."""
    generator = torch.Generator().manual_seed(seed)
    rows, answers = [], []
    for draw in range(_MORE_DRAWS):
        network = drawn(kind, _DEPTH, seed=_MORE_DRAWS * seed + draw, width=size, scale=scale)
        h, row = normal(generator, _MANY, size), []
        with torch.no_grad():
            for block in network.blocks:
                h = block(h)
                row.append(math.log10(float(torch.linalg.cond(h))))
        rows.append(row)
        answers.append(_log_answer(h.T, generator))
    table = torch.tensor(rows, dtype=torch.float64)
    return {
        "condition": table.mean(dim=0).tolist(),
        "error": (table.std(dim=0) / math.sqrt(_MORE_DRAWS)).tolist(),
        "amplification": mean(answers),
    }


def _log_answer(H: Tensor, generator: torch.Generator) -> float:
    """log₁₀ of the relative change of a fitting solution over that of H, for a small random change."""
    Y = normal(generator, 3, len(H)) @ H
    size = torch.linalg.matrix_norm(H, 2)
    answer, cause = relative_change(H, H + 1e-11 * size * normal(generator, *H.shape), Y)
    return math.log10(answer / cause)


def corollary_2(numbers: Numbers) -> list[Relation]:
    """κ is larger in the residual network, at every depth."""
    rows = zip(*(numbers["networks"][kind] for kind in ("residual", "aggregated")), strict=True)
    return [
        at_least(f"{depth} blocks: log₁₀ κ, residual against aggregated", residual, aggregated)
        for depth, (residual, aggregated) in enumerate(rows, start=1)
    ]


def corollary_2_equal(numbers: Numbers) -> list[Relation]:
    """It is for Gaussian H, and with branches of equal variance, within two standard errors."""
    free = numbers["gaussian"]
    residual, aggregated = (numbers["equal_variance"][k] for k in ("residual", "aggregated"))
    errors = zip(residual["error"], aggregated["error"], strict=True)
    rows = zip(residual["condition"], aggregated["condition"], errors, strict=True)
    return [
        at_least("Gaussian H: log₁₀ κ of n rows against q", free["residual"], free["aggregated"]),
        at_least(
            "equal variance: mean log₁₀ κ over the blocks, residual against aggregated",
            mean(residual["condition"]),
            mean(aggregated["condition"]),
        ),
        *(
            at_least(
                f"equal variance, {depth} blocks: log₁₀ κ, residual against aggregated",
                a,
                b,
                slack=2 * math.hypot(*error),
            )
            for depth, (a, b, error) in enumerate(rows, start=1)
        ),
    ]


def remark_9(numbers: Numbers) -> list[Relation]:
    """The solution answers changes more strongly in the residual network."""
    return [_answers(numbers, "network")]


def remark_9_equal(numbers: Numbers) -> list[Relation]:
    """It does for Gaussian H, and with branches of equal variance."""
    equal_ones = numbers["equal_variance"]
    return [
        _answers(numbers, "gaussian"),
        at_least(
            "equal variance: log₁₀ of the amplification, residual against aggregated",
            equal_ones["residual"]["amplification"],
            equal_ones["aggregated"]["amplification"],
        ),
    ]


def _answers(numbers: Numbers, which: str) -> Relation:
    result = numbers["amplification"]
    return at_least(
        f"{which}: log₁₀ of the amplification, residual against aggregated",
        result["residual"][which],
        result["aggregated"][which],
    )


_UNDER = (
    "branches of equal variance: the four paths divided by 2, as in remarks 3 and 6. It is so of Gaussian "
    "H of the two sizes too, of which the proof speaks; in linear networks as drawn the sum over paths "
    "makes branches larger, and H of the aggregated network is the worse conditioned"
)
_LINKS = (
    Link(to="singularity.figure_13", check="ResNeXt"),
    Link(
        to="singularity.finding_3",
        difference="finding 3 speaks of trained networks and of their "
        "accuracy: there ResNeXt is the better conditioned too, and does not generalize better",
    ),
)
COROLLARY_2 = Claim(
    name="singularity.corollary_2",
    statement="The representations of the ResNet are worse conditioned than those of the "
    "ResNeXt, at every layer.",
    assumptions=("q < n < N",),
    tested="Most favorably, κ of Gaussian H of the two sizes, and of H in linear networks whose branches "
    "have equal variance, 80 each; in general, κ of H in networks as they are drawn.",
    measure=measure_sizes,
    law=corollary_2,
    under=_UNDER,
    law_under=corollary_2_equal,
    links=_LINKS,
)
REMARK_9 = Claim(
    name="singularity.remark_9",
    statement="The ResNeXt has a more stable solution than the ResNet.",
    assumptions=("q < n < N",),
    tested="Amplification of small changes of H, most favorably for Gaussian H of the two sizes and in "
    "linear networks whose branches have equal variance; in general, in networks as they are drawn.",
    measure=measure_sizes,
    law=remark_9,
    under=_UNDER,
    law_under=remark_9_equal,
    links=(Link(to="singularity.corollary_2"), *_LINKS),
)
