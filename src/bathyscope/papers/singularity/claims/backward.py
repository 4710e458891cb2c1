"""Definitions 3 and 4 and remarks 4 to 6: gradients and updates in linear networks."""

import torch

from bathyscope import measure
from bathyscope.claims.claim import Claim, Measured, Numbers
from bathyscope.claims.draws import half_squares
from bathyscope.claims.reading import linear_layers, numbers_of
from bathyscope.claims.relation import Relation, at_least, at_most, equal
from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.records import Assumption
from bathyscope.nets import Network
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
)

_RATE = 0.1


def measure_definitions(seed: int) -> Measured:
    """Gradients and a step of a linear network of six layers on six samples, against the formulas."""
    size = 6
    network = drawn("plain", 3, seed=seed, width=size)
    x, y = batch_for(seed, width=size, samples=size)
    layers = linear_layers(network)
    states = [x]
    for layer in layers:
        states.append(layer(states[-1]))
        states[-1].retain_grad()
    half_squares(states[-1], y).backward()
    m = 3  # a layer in the middle
    H = [state.detach().T for state in states]  # columns are samples, as in the paper
    delta = [None if s.grad is None else s.grad.T for s in states]
    before, after = delta[m], delta[m + 1]
    assert before is not None
    assert after is not None
    W = layers[m].weight.detach().clone()  # the step changes it in place
    start = layers[m - 1].weight.detach().clone()
    torch.optim.SGD(network.parameters(), lr=_RATE).step()
    step = layers[m - 1].weight.detach() - start
    printed_step = _RATE * before @ H[m - 1]
    return Measured(
        numbers={
            "gradient_printed": _gap(before, H[m] @ (W @ after)),
            "gradient_corrected": _gap(before, W.T @ after),
            "gradient_without_transpose": _gap(before, W @ after),
            "step_printed": min(_gap(step, printed_step), _gap(step, -printed_step)),
            "step_corrected": _gap(step, -_RATE * before @ H[m - 1].T),
            "step_with_other_sign": _gap(step, _RATE * before @ H[m - 1].T),
            "rank_of_step_on_two_samples": _step_rank(seed, size=size, samples=2),
        },
        settings={"samples": size, "width": size, "learning rate": _RATE},
    )


def _step_rank(seed: int, *, size: int, samples: int) -> int:
    """The rank of a middle layer's step where H has no more rank than there are samples."""
    network = drawn("plain", 3, seed=seed, width=size)
    x, y = batch_for(seed, width=size, samples=samples)
    half_squares(network(x), y).backward()
    gradient = linear_layers(network)[2].weight.grad
    assert gradient is not None
    return int(torch.linalg.matrix_rank(gradient))


def _gap(result: torch.Tensor, formula: torch.Tensor) -> float:
    return float((result - formula).norm() / result.norm())


def definition_3(numbers: Numbers) -> list[Relation]:
    """Δ^m = H^m (W^{m+1} Δ^{m+1})."""
    return [at_most("gradient: relative error", numbers["gradient_printed"], 1e-9)]


def definition_3_corrected(numbers: Numbers) -> list[Relation]:
    """Δ^m = (W^{m+1})ᵀ Δ^{m+1}."""
    return [at_most("gradient: relative error", numbers["gradient_corrected"], 1e-9)]


DEFINITION_3 = Claim(
    name="singularity.definition_3",
    formula=r"\Delta^m = H^m\,(W^{m+1}\Delta^{m+1})",
    statement="The error gradient is Δ^m = H^m (W^{m+1} Δ^{m+1}).",
    tested="Automatic differentiation of a linear network with as many samples as units, "
    "where the shapes fit.",
    measure=measure_definitions,
    law=definition_3,
    corrected="Δ^m = (W^{m+1})ᵀ Δ^{m+1}: the representation does not enter (and its shape would "
    "fit only for as many samples as units)",
    law_corrected=definition_3_corrected,
)


def definition_4(numbers: Numbers) -> list[Relation]:
    """ΔW = η Δ^m H^{m−1}, for either sign of Δ."""
    return [at_most("step: relative error", numbers["step_printed"], 1e-9)]


def definition_4_corrected(numbers: Numbers) -> list[Relation]:
    """ΔW = −η Δ^m (H^{m−1})ᵀ."""
    return [
        at_most("step: relative error", numbers["step_corrected"], 1e-9),
        at_most("rank of the step where H has rank 2", numbers["rank_of_step_on_two_samples"], 2),
    ]


DEFINITION_4 = Claim(
    name="singularity.definition_4",
    formula=r"\Delta W^m = -\eta\,\partial C/\partial W^m = \eta\,\Delta^m H^{m-1}",
    statement="The update is ΔW^m = −η ∂C/∂W^m = η Δ^m H^{m−1}.",
    tested="A step of gradient descent on a linear network with as many samples as units, "
    "where the shapes fit.",
    measure=measure_definitions,
    law=definition_4,
    corrected="ΔW^m = −η ∂C/∂W^m = −η Δ^m (H^{m−1})ᵀ, with the transpose; its rank is at most that "
    "of H^{m−1}",
    law_corrected=definition_4_corrected,
)


def _ranks(
    network: Network, batch: tuple[torch.Tensor, torch.Tensor], blocks: Blocks | None = None
) -> dict[str, object]:
    """Ranks of gradients and updates, the first block's, the last one's and the smallest."""
    blocks = blocks or blocks_of(network, batch[0])
    result = measure.gradients(network, batch, loss=half_squares, blocks=blocks)
    gradient = numbers_of(result, "rank")
    optimizer = torch.optim.SGD(network.parameters(), lr=_RATE)
    result = measure.updates(network, batch, loss=half_squares, optimizer=optimizer, blocks=blocks)
    step = numbers_of(result, "rank_fraction")
    return {
        "gradient_first": gradient[0],
        "gradient_last": gradient[-1],
        "smallest_gradient": min(gradient),
        "update_last": step[-1],
        "smallest_update": min(step),
    }


def measure_plain(seed: int) -> Measured:
    """A plain network of 82 blocks: ranks of H, gradients and updates."""
    network, batch = drawn("plain", BLOCKS, seed=seed), batch_for(seed)
    rank = int(spectra(network, batch)[-1].rank or 0)
    return Measured(
        numbers={**_ranks(network, batch), "representation": rank, "width": WIDTH},
        assumptions=(
            is_linear(network),
            Assumption(
                statement=f"H^m is singular (rank {rank} of {WIDTH})",
                holds=rank < WIDTH,
                value=rank,
            ),
        ),
        settings={"blocks": BLOCKS},
    )


def remark_4(numbers: Numbers) -> list[Relation]:
    """Where H is singular, at the last block, gradient and update are."""
    return [
        at_most("last block: rank of the gradient", numbers["gradient_last"], WIDTH - 1),
        at_most(
            "last block: fraction of the full rank of the update", numbers["update_last"], 1 - 1e-9
        ),
    ]


def remark_4_corrected(numbers: Numbers) -> list[Relation]:
    """The update is singular with H; the gradient far from the loss, not where H is."""
    return [
        at_most(
            "last block: fraction of the full rank of the update", numbers["update_last"], 1 - 1e-9
        ),
        at_most("first block: rank of the gradient", numbers["gradient_first"], WIDTH - 1),
        equal("last block: rank of the gradient", numbers["gradient_last"], WIDTH),
    ]


REMARK_4 = Claim(
    name="singularity.remark_4",
    statement="In a deep plain network, because H^m is singular, error gradient and update "
    "are singular.",
    assumptions=(LINEAR, "H^m is singular"),
    tested="Ranks of gradient and update at the last block, where H is singular, and at the first.",
    measure=measure_plain,
    law=remark_4,
    corrected="where H^{m−1} is singular the update is; the gradient does not depend on H, has full rank "
    "at the last block, and is singular at the first, which is far from the loss",
    law_corrected=remark_4_corrected,
)


def measure_skips(seed: int, kind: Kind) -> Measured:
    """Ranks of gradients and updates in 82 blocks with skips, as drawn and scaled."""
    batch = batch_for(seed)
    network = drawn(kind, BLOCKS, seed=seed)
    blocks = blocks_of(network, batch[0])  # the same in both
    scale = SCALED / (2 if kind == "aggregated" else 1)
    return Measured(
        numbers={
            "as_drawn": _ranks(network, batch, blocks),
            "scaled": _ranks(drawn(kind, BLOCKS, seed=seed, scale=scale), batch, blocks),
        },
        assumptions=(is_linear(network),),
        settings={"blocks": BLOCKS, "scale": SCALED},
    )


def well_behaved(numbers: Numbers) -> list[Relation]:
    """Full rank everywhere, as drawn."""
    return _full(numbers["as_drawn"], "as drawn")


def well_behaved_scaled(numbers: Numbers) -> list[Relation]:
    """Full rank everywhere, with scaled branches."""
    return _full(numbers["scaled"], "scaled")


def _full(ranks: dict[str, float], name: str) -> list[Relation]:
    return [
        equal(f"{name}: smallest rank of a gradient", ranks["smallest_gradient"], WIDTH),
        at_least(
            f"{name}: smallest fraction of the full rank of an update",
            ranks["smallest_update"],
            1.0,
        ),
    ]


_UNDER = "branches small enough for the depth (here scaled by 0.1 at 82 blocks)"
REMARK_5 = Claim(
    name="singularity.remark_5",
    statement="In a deep residual network error gradients and updates are non-singular.",
    assumptions=(LINEAR,),
    tested="Ranks of gradients and updates of every block at 82 blocks, with branches as "
    "drawn and "
    "scaled by 0.1.",
    measure=lambda seed: measure_skips(seed, "residual"),
    law=well_behaved,
    under=_UNDER,
    law_under=well_behaved_scaled,
)
REMARK_6 = Claim(
    name="singularity.remark_6",
    statement="In a deep aggregated network error gradients and updates are non-singular.",
    assumptions=(LINEAR,),
    tested="As remark 5, with four paths.",
    measure=lambda seed: measure_skips(seed, "aggregated"),
    law=well_behaved,
    under=_UNDER,
    law_under=well_behaved_scaled,
)
