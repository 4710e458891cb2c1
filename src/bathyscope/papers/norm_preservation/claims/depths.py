"""Further observations of section 4.1: gradient norms by depth and by the type of block."""

import math
from functools import lru_cache
from statistics import mean

import torch
import torch.nn.functional as F

from bathyscope import measure, nets
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.reading import numbers_of
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.blocks import blocks_of
from bathyscope.core.json_values import JsonObject
from bathyscope.papers.norm_preservation.claims.observations import digits
from bathyscope.remedies import procrustes_, transition_layers

_SHALLOW, _DEEP, _WIDTH, _STEPS, _BATCH, _RATE = 20, 47, 8, 8, 32, 0.05
_FAMILIES = {"plain": "preplain", "residual": "preresnet", "procrustes": "procresnet"}
_NEVER = 1e3
"""|log ratio| of a gradient that is zero or non-finite."""


@lru_cache(maxsize=8)
def trained_ratios(name: str, depth: int, seed: int) -> JsonObject:
    """|log ratio| of every block after eight steps of SGD on digits, by the type of block.

    `name` is plain, residual or procrustes, whose transition layers are projected every second step.
    """
    layers = depth + 2 if name == "procrustes" else depth
    model = nets.build(f"{_FAMILIES[name]}-{layers}", in_channels=1, width=_WIDTH, seed=seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE, momentum=0.9)
    handle = None
    if name == "procrustes":
        handle = procrustes_(optimizer, transition_layers(model), every=2, size=[8, 4, 2])
    x, y = digits()
    for step in range(_STEPS):
        part = slice(step * _BATCH, (step + 1) * _BATCH)
        optimizer.zero_grad()
        F.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.step()
    if handle is not None:
        handle.remove()
    probe = (x[:64], y[:64])
    blocks = blocks_of(model, probe[0])
    result = measure.gradients(model, probe, loss=F.cross_entropy, blocks=blocks)
    away = [
        abs(math.log(r)) if math.isfinite(r) and r > 0 else _NEVER
        for r in numbers_of(result, "ratio")
    ]
    pairs = list(zip(away, blocks, strict=True))
    return {
        "all": mean(away),
        "transitions": [a for a, block in pairs if block.changes_dimension],
        "others": mean(a for a, block in pairs if not block.changes_dimension),
        "worst_other": max(a for a, block in pairs if not block.changes_dimension),
    }


_SETTINGS = {
    "data": "digits",
    "depths": (_SHALLOW, _DEEP),
    "width": _WIDTH,
    "steps": _STEPS,
    "learning rate": _RATE,
}


def measure_depth(seed: int) -> Measured:
    """A plain and a residual network at two depths."""
    return Measured(
        numbers={
            name: {
                "shallow": trained_ratios(name, _SHALLOW, seed),
                "deep": trained_ratios(name, _DEEP, seed),
            }
            for name in ("plain", "residual")
        },
        settings=_SETTINGS,
    )


def depth_helps_skips(numbers: Numbers) -> list[Relation]:
    """Plain blocks leave 1 with depth, those of a residual network with an identity skip approach it."""
    plain, residual = numbers["plain"], numbers["residual"]
    return [
        at_least(
            "plain, all blocks: mean |log ratio|, deep over shallow",
            plain["deep"]["all"] / plain["shallow"]["all"],
            1.0,
        ),
        at_most(
            "residual, identity skips: mean |log ratio|, deep over shallow",
            residual["deep"]["others"] / residual["shallow"]["others"],
            1.0,
        ),
    ]


SECTION_4_1_DEPTH = Claim(
    name="norm_preservation.section_4_1_depth",
    statement="The deeper it is, the less a plain network preserves the norms of gradients, and the more the "
    "blocks with an identity skip of a residual network do.",
    tested="Mean |log| of the gradient-norm ratio of plain and residual networks of 20 and 47 layers, after "
    "eight steps on digits.",
    links=(Link(to="norm_preservation.theorem_1"),),
    measure=measure_depth,
    law=depth_helps_skips,
    empirical=True,
)


def measure_transitions(seed: int) -> Measured:
    """The residual network of 47 layers."""
    return Measured(numbers={"deep": trained_ratios("residual", _DEEP, seed)}, settings=_SETTINGS)


def transitions_are_worst(numbers: Numbers) -> list[Relation]:
    """The block whose ratio is farthest from 1 is a transition block."""
    deep = numbers["deep"]
    return [
        at_least(
            "worst transition block's |log ratio|, over the worst other's",
            max(deep["transitions"]) / deep["worst_other"],
            1.0,
        )
    ]


def all_three_are_worst(numbers: Numbers) -> list[Relation]:
    """Each of the three is worse than all others."""
    deep = numbers["deep"]
    return [
        at_least(
            "best transition block's |log ratio|, over the worst other's",
            min(deep["transitions"]) / deep["worst_other"],
            1.0,
        )
    ]


SECTION_4_1_TRANSITIONS = Claim(
    name="norm_preservation.section_4_1_transitions",
    statement="In a deep residual network only the three transition blocks do not preserve norms.",
    tested="|log| of the gradient-norm ratio of every block of a residual network of 47 layers after eight "
    "steps on digits: the farthest from 1 is a transition block. Read more strictly, that each of the three "
    "is farther than every other block, is shown beside it.",
    measure=measure_transitions,
    law=transitions_are_worst,
    law_strict=all_three_are_worst,
    empirical=True,
)


def measure_first_transition(seed: int) -> Measured:
    """A ProcResNet of 49 layers whose transition layers are projected."""
    return Measured(numbers={"deep": trained_ratios("procrustes", _DEEP, seed)}, settings=_SETTINGS)


def first_is_worst(numbers: Numbers) -> list[Relation]:
    """The first transition block is farther from 1 than the two others and than the mean block."""
    deep = numbers["deep"]
    first, *rest = deep["transitions"]
    return [
        at_least("first transition's |log ratio|, over that of the others", first / max(rest), 1.0),
        at_least(
            "first transition's |log ratio|, over the mean block's", first / deep["others"], 1.0
        ),
    ]


def only_the_first(numbers: Numbers) -> list[Relation]:
    """The two others are no farther from 1 than blocks with an identity skip."""
    deep = numbers["deep"]
    return [
        at_most(
            "second and third transition's |log ratio|, over the worst other's",
            max(deep["transitions"][1:]) / deep["worst_other"],
            1.0,
        )
    ]


SECTION_4_1_FIRST_TRANSITION = Claim(
    name="norm_preservation.section_4_1_first_transition",
    statement="In a ProcResNet the only block that preserves norms less is the first transition block, whose "
    "convolution has few input channels.",
    tested="|log| of the gradient-norm ratio of every block of a ProcResNet of 49 layers after eight steps "
    "on digits with the projection: the first transition block is the farthest of the three. Beside it the "
    "stricter reading, that the two others are as near to 1 as blocks without a transition.",
    measure=measure_first_transition,
    law=first_is_worst,
    law_strict=only_the_first,
    empirical=True,
)


def measure_shallow(seed: int) -> Measured:
    """The three networks of 20 layers."""
    return Measured(
        numbers={name: trained_ratios(name, _SHALLOW, seed) for name in _FAMILIES},
        settings=_SETTINGS,
    )


def alike_when_shallow(numbers: Numbers) -> list[Relation]:
    """Plain and residual within a factor of two."""
    plain, residual = (numbers[name]["all"] for name in ("plain", "residual"))
    ratio = max(plain, residual) / min(plain, residual)
    return [at_most("plain and residual: larger over smaller", ratio, 2.0)]


def nearest_of_all(numbers: Numbers) -> list[Relation]:
    """The ProcResNet nearer to 1 than both."""
    treated = numbers["procrustes"]["all"]
    return [
        at_most(f"ProcResNet over {name}", treated / numbers[name]["all"], 1.0)
        for name in ("plain", "residual")
    ]


SECTION_4_1_SHALLOW = Claim(
    name="norm_preservation.section_4_1_shallow",
    statement="At 20 layers plain and residual networks preserve norms alike, a ProcResNet more than both.",
    tested="Mean |log| of the gradient-norm ratio over all blocks of the three networks after eight steps on "
    "digits: plain and residual within a factor of two; beside it whether the ProcResNet is nearer to 1.",
    undecided=(
        "that a ProcResNet preserves norms more already at 20 layers: the means of the three networks lie "
        "within 20 % of each other here, and their order changes with the seed",
    ),
    measure=measure_shallow,
    law=alike_when_shallow,
    law_strict=nearest_of_all,
    empirical=True,
)
