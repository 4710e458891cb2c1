"""Finding 4 and section VII-C: special starts against skips, and a search that may choose skips."""

from statistics import fmean, geometric_mean

import torch
from torch import nn

from bathyscope import nets
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.blocks import blocks_of
from bathyscope.core.json_values import JsonObject
from bathyscope.papers.singularity.claims.short_training import NUM_TRAIN, digits, short_training
from bathyscope.remedies import procrustes_, shortcut_
from bathyscope.training import Callback, LoopView

LAG = 0.1
"""Test accuracy by which a network lags considerably."""
LESS = 1.25
"""Factor by which gradients grow less where that is to count."""


class _HeldOrthogonal(Callback):
    """Projects every convolution of the body after each step."""

    def on_start(self, loop: LoopView) -> None:
        body = [
            module
            for name, module in loop.model.named_modules()
            if isinstance(module, nn.Conv2d) and name.startswith("blocks")
        ]
        procrustes_(loop.optimizer, body, every=1, gain="isotropic")


# family, start, and whether the weights are held where they began
_NETWORKS: dict[str, tuple[str, str | None, bool]] = {
    "residual": ("resnet", None, False),
    "delta_orthogonal": ("plain", "delta_orthogonal", False),
    "delta_orthogonal_held": ("plain", "delta_orthogonal", True),
    "dirac": ("diracnet", None, False),
}


def measure_starts(seed: int, *, depth: int = 20, lr: float = 0.01) -> Measured:
    """Narrow networks after 32 steps: with skips, with special starts, and one held orthogonal."""
    result: dict[str, JsonObject] = {}
    for name, (family, init, held) in _NETWORKS.items():
        model = nets.build(f"{family}-{depth}", in_channels=1, width=8, init=init, seed=seed)
        run = short_training(
            model,
            lr=lr,
            epochs=4,
            seed=seed,
            at=(0,),
            callbacks=(_HeldOrthogonal(),) if held else (),
        )
        result[name] = {
            "train_accuracy": run.train_accuracy,
            "test_accuracy": run.test_accuracy,
            "gradient_growth_at_start": run.states[0].gradient_growth,
        }
    residual = result["residual"]["train_accuracy"]
    return Measured(
        numbers={
            "networks": result,
            "lags": {
                name: residual - run["train_accuracy"]
                for name, run in result.items()
                if name != "residual"
            },
        },
        settings={"data": "digits", "samples": NUM_TRAIN, "depth": depth, "learning rate": lr},
    )


def _lagging(numbers: Numbers) -> list[Relation]:
    return [
        at_least(f"{name.replace('_', '-')}: lag in accuracy", numbers["lags"][name], LAG)
        for name in ("delta_orthogonal", "dirac")
    ]


def finding_4(numbers: Numbers) -> list[Relation]:
    """Special starts lag, and holding the weights where they began would mend it."""
    lags = numbers["lags"]
    return [
        *_lagging(numbers),
        at_most(
            "lag with the weights held orthogonal",
            lags["delta_orthogonal_held"],
            lags["delta_orthogonal"] / 2,
        ),
    ]


def finding_4_corrected(numbers: Numbers) -> list[Relation]:
    """They lag, held or not, and gradients grow before a weight has moved."""
    lags, networks = numbers["lags"], numbers["networks"]
    return [
        *_lagging(numbers),
        at_least("lag with the weights held orthogonal", lags["delta_orthogonal_held"], LAG),
        at_least(
            "growth of the gradient at the start, against ten times the residual network's",
            networks["delta_orthogonal"]["gradient_growth_at_start"],
            10 * networks["residual"]["gradient_growth_at_start"],
        ),
    ]


FINDING_4 = Claim(
    name="singularity.finding_4",
    statement="Special initializations lag behind skips because weights leave the wanted regime.",
    tested="Narrow networks of 20 layers after 32 steps on digits: residual, plain from a "
    "delta-orthogonal start, DiracNet, and a delta-orthogonal one whose kernels are projected "
    "back after every step.",
    links=(
        Link(
            to="singularity.similar_networks",
            difference="the study gives each network its own best rate and more steps",
        ),
    ),
    measure=measure_starts,
    law=finding_4,
    empirical=True,
    corrected="special starts lag behind skips, but not because weights leave their regime: a plain "
    "network whose kernels are held orthogonal lags as well, and its gradients grow through batch "
    "normalization and ReLU before a weight has moved",
    law_corrected=finding_4_corrected,
    takes=("depth", "lr"),
)


def measure_search(seed: int, *, depth: int = 26, lr: float = 0.02) -> Measured:
    """A search over where skips go: six networks, trained for 16 steps, from no skip to all."""
    generator = torch.Generator().manual_seed(seed)
    sample = digits()[0][0][:2]
    tried: list[dict[str, float]] = []
    for step in range(6):
        model = nets.build(f"plain-{depth}", in_channels=1, width=8, seed=100 * seed + step)
        able = [block for block in blocks_of(model, sample) if block.in_shape == block.out_shape]
        chosen = torch.randperm(len(able), generator=generator)[: round(step * len(able) / 5)]
        if len(chosen):
            shortcut_(model, [able[i] for i in chosen.tolist()])
        run = short_training(model, lr=lr, epochs=2, seed=seed, at=(0,))
        start, end = run.states
        tried.append(
            {
                "skips": float(len(chosen)),
                "train_accuracy": run.train_accuracy,
                "singular_blocks": max(start.singular_blocks, end.singular_blocks),
                "condition_at_start": start.condition,
                "gradient_growth_at_start": start.gradient_growth,
            }
        )
    tried.sort(key=lambda row: row["train_accuracy"])
    return Measured(
        numbers={
            "networks": tried,
            "singular_networks": sum(row["singular_blocks"] > 0 for row in tried),
            "passed_over": _means(tried[:3]),
            "preferred": _means(tried[3:]),
        },
        settings={"data": "digits", "samples": NUM_TRAIN, "depth": depth, "learning rate": lr},
    )


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    """Of numbers of skips the arithmetic, of ratios the geometric mean."""
    return {
        "skips": fmean(row["skips"] for row in rows),
        "condition_at_start": geometric_mean(row["condition_at_start"] for row in rows),
        "gradient_growth_at_start": geometric_mean(row["gradient_growth_at_start"] for row in rows),
    }


def _prefers_skips(numbers: Numbers) -> Relation:
    return at_least(
        "mean number of skips, the three best against the three worst",
        numbers["preferred"]["skips"],
        numbers["passed_over"]["skips"] + 1,
    )


def architecture_search(numbers: Numbers) -> list[Relation]:
    """Skips are preferred, and what is passed over is singular."""
    return [
        _prefers_skips(numbers),
        at_least("networks with a singular block", numbers["singular_networks"], 1),
    ]


def architecture_search_corrected(numbers: Numbers) -> list[Relation]:
    """Skips are preferred among networks all of which are regular; gradients distinguish them."""
    return [
        _prefers_skips(numbers),
        at_most("networks with a singular block", numbers["singular_networks"], 0),
        at_most(
            "growth of the gradient at the start, the three best against the three worst",
            numbers["preferred"]["gradient_growth_at_start"],
            numbers["passed_over"]["gradient_growth_at_start"] / LESS,
        ),
    ]


SECTION_7_ARCHITECTURE_SEARCH = Claim(
    name="singularity.section_7_architecture_search",
    statement="Architecture search prefers skips because they keep representations non-singular.",
    tested="A search over where a plain network of 26 layers gets skips: six narrow networks, "
    "from no skip to all, ranked by accuracy after 16 steps on digits; whether those passed over "
    "are singular, and how the ranking goes with κ and with the growth of the gradient.",
    measure=measure_search,
    law=architecture_search,
    empirical=True,
    corrected="a search prefers skips at a depth where no candidate is singular, skips or none; what "
    "goes with its preference is that gradients grow less through the network",
    law_corrected=architecture_search_corrected,
    takes=("depth", "lr"),
)
