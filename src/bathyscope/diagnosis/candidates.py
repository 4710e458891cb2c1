"""Which recipes enter the race: those targeted at the findings first, then what has helped before."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from bathyscope.remedies import (
    AddNorms,
    AddShortcuts,
    ChangeLevel,
    ClipGradient,
    DecayWeights,
    DrawWeights,
    Recipe,
    ReplaceOptimizer,
    ScaleRate,
    ScaleWeights,
    StartRecurrence,
    TailorActivations,
    WarmUp,
    tailored_slope,
)
from bathyscope.remedies.activations import activation_names
from bathyscope.remedies.places import Places, last_layers, locations_of, unit_variance_factors
from bathyscope.rules.families.optimizer import USUAL_DECAY
from bathyscope.rules.targeted import end_repairs, targeted_recipes
from bathyscope.rules.targeted.context import Context, Steps
from bathyscope.rules.targeted.transformers import rezero

Kind = Literal["sgd", "adam", "adamw"]

ADAM = ReplaceOptimizer(kind="adam", lr=3e-3)
"""What trained 68 of 68 failing networks together with shortcuts, norms and a start that fits."""

_TRIALS = 8  # settings at random, as many of them as the steps are enough for


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recipe in the race; one `targeted` at a finding is also tried where the network trains."""

    recipe: Recipe
    targeted: bool = False
    surest: bool = False


def candidates(context: Context, allow: tuple[ChangeLevel, ...], most: int) -> list[Candidate]:
    """The recipes that enter, at most this many, none deeper than what is allowed.

    What is targeted at a finding comes first, then each level's own in turns, so that none is left out; the
    surest of the deepest level is always among them.
    """
    locations = locations_of(context.model, context.batch[0], context.blocks)
    by_level = {
        level: [_with_decay(steps, context.optimizer) for steps in found]
        for level, found in (
            ("settings", _settings(context)),
            ("weights", _weights(context, locations)),
            ("activations", _activations(context, locations)),
            ("structure", _structure(context, locations)),
        )
    }
    targeted = [
        Candidate(Recipe(steps=steps), targeted=True)
        for steps in _targeted(context)
        if all(step.level in allow for step in steps)
    ]
    chosen = {c.recipe.to_json(): c for c in targeted}
    lists = [
        [r for r in (Recipe(steps=s) for s in by_level[level]) if r.steps and _is_within(r, allow)]
        for level in allow
    ]
    if "structure" in allow and "activations" in allow:
        del lists[allow.index("activations")][
            1:
        ]  # one is heard; the others wait for their own race
    surest = next((recipes[0] for recipes in reversed(lists) if recipes), None)
    if surest is not None:
        chosen[surest.to_json()] = Candidate(surest, surest=True)
    if "settings" in allow:  # what a person would try first
        for recipe in lists[allow.index("settings")]:
            chosen.setdefault(recipe.to_json(), Candidate(recipe))
    for turn in range(max(map(len, lists), default=0)):
        for recipes in reversed(lists):
            if turn < len(recipes) and len(chosen) < most:
                chosen.setdefault(recipes[turn].to_json(), Candidate(recipes[turn]))
    return list(chosen.values())[:most]


def _with_decay(steps: Steps, optimizer: torch.optim.Optimizer) -> Steps:
    """The steps with the user's own weight decay in every new optimizer, where it is a usual one."""
    decay = max((float(g.get("weight_decay", 0)) for g in optimizer.param_groups), default=0.0)
    if not 0 < decay <= USUAL_DECAY:
        return steps
    decoupled = isinstance(optimizer, torch.optim.AdamW)
    return tuple(
        step.model_copy(
            update={
                "weight_decay": decay,
                "kind": "adamw" if decoupled and step.kind == "adam" else step.kind,
            }
        )
        if isinstance(step, ReplaceOptimizer)
        else step
        for step in steps
    )


def _is_within(recipe: Recipe, allow: tuple[ChangeLevel, ...]) -> bool:
    return all(step.level in allow for step in recipe.steps)


def _targeted(context: Context) -> Iterator[Steps]:
    """What the findings ask for, and no weight decay where there is much of it."""
    yield from targeted_recipes(context)
    if any(group.get("weight_decay", 0) > USUAL_DECAY for group in context.optimizer.param_groups):
        yield (DecayWeights(value=0.0),)


def _settings(context: Context) -> Iterator[Steps]:
    yield (ADAM,)  # the surest of settings; then what a person would try
    yield (ScaleRate(factor=0.1),)
    yield (ScaleRate(factor=10.0),)
    yield (ReplaceOptimizer(kind="adam", lr=3e-4),)
    yield from random_settings(_TRIALS)
    yield (ScaleRate(factor=100.0),)
    yield (ScaleRate(factor=0.01),)


def random_settings(count: int, seed: int = 0) -> Iterator[Steps]:
    """Short trials at random: the optimizer, its rate over two to three decades, clipping and warm-up.

    Examples:
        >>> len(list(random_settings(8)))
        8
    """
    generator = random.Random(seed)
    for _ in range(count):
        kind: Kind = generator.choice(("sgd", "adam", "adamw"))
        low, high = (-2.5, 0.0) if kind == "sgd" else (-3.7, -1.7)
        rate = float(f"{10 ** generator.uniform(low, high):.2g}")
        clip = (ClipGradient(norm=1.0),) * (generator.random() < 0.5)
        warm = (WarmUp(steps=20),) * (generator.random() < 0.5)
        yield ReplaceOptimizer(kind=kind, lr=rate), *clip, *warm


def _weights(context: Context, locations: Places) -> Iterator[Steps]:
    drawn = DrawWeights(gain=locations.gain)
    if any(isinstance(m, (nn.RNNBase, nn.RNNCellBase)) for m in context.model.modules()):
        yield StartRecurrence(), drawn, ADAM, ClipGradient(norm=1.0)
        yield StartRecurrence(), ADAM, ClipGradient(norm=1.0)
    yield drawn, ADAM
    yield (drawn,)
    factors = unit_variance_factors(context.model, context.batch[0], context.blocks)
    if factors:
        even = ScaleWeights(factors=factors, purpose="rescaled to unit variance")
        yield even, ADAM
        yield (even,)
    if locations.residual:
        ends = last_layers(context.model, locations.residual)
        zero = dict.fromkeys(ends, 0.0)
        yield ScaleWeights(factors=zero, purpose="last layers of branches zeroed"), ADAM
        scale = dict.fromkeys(ends, len(ends) ** -0.5)
        yield (ScaleWeights(factors=scale, purpose="branches scaled by 1/√depth"),)
        yield drawn, ScaleWeights(factors=zero, purpose="last layers of branches zeroed"), ADAM
        # the variance that a residual stream gains is then the same at every depth (curse of depth)
        by_block = {name: (number + 1) ** -0.5 for number, name in enumerate(ends)}
        yield ScaleWeights(factors=by_block, purpose="branch l scaled by 1/√l"), ADAM
        # CompleteP: branches of 1/L keep learning rates from one depth to another
        whole = dict.fromkeys(ends, 1 / len(ends))
        yield ScaleWeights(factors=whole, purpose="branches scaled by 1/depth"), ADAM
    orthogonal = DrawWeights(scheme="delta-orthogonal", gain=locations.gain)
    yield orthogonal, ReplaceOptimizer(kind="adam", lr=1e-3), ClipGradient(norm=1.0)
    yield drawn, ScaleRate(factor=0.1)
    yield drawn, ReplaceOptimizer(kind="adam", lr=3e-4), ClipGradient(norm=1.0)


def _activations(context: Context, locations: Places) -> Iterator[Steps]:
    """Tailored rectifiers, for networks without shortcuts of their own, with rates that suit them."""
    layers = activation_names(context.model)
    slope = tailored_slope(len(layers)) if layers else 0.0
    if slope == 0 or locations.residual:  # so few layers need no slope: a start that fits does it
        return
    tailored = TailorActivations(layers=layers, slope=slope)
    orthogonal = DrawWeights(scheme="delta-orthogonal")
    yield tailored, orthogonal, ReplaceOptimizer(kind="adam", lr=3e-4)
    yield tailored, orthogonal, ReplaceOptimizer(kind="sgd", lr=3e-3), ClipGradient(norm=1.0)
    yield tailored, orthogonal, ReplaceOptimizer(kind="sgd", lr=1e-3)


def _structure(context: Context, locations: Places) -> Iterator[Steps]:
    """The surest first: S + N + R + A of the measurements in docs/treatment.md; then less of it."""
    scale = max(1, len(locations.spans)) ** -0.5
    around = [AddShortcuts(spans=locations.spans, scale=scale)] if locations.spans else []
    norms = [AddNorms(layers=locations.norms)] if locations.norms else []
    drawn = DrawWeights(gain=locations.gain)
    ends = end_repairs(context)
    recurrent = any(isinstance(m, nn.RNNBase) for m in context.model.modules())
    cell = [StartRecurrence()] * recurrent
    clip = [ClipGradient(norm=1.0)] * recurrent
    yield (*ends, *around, *norms, *cell, drawn, ADAM, *clip)
    if ends:
        yield ends
        yield (*ends, ADAM)
    yield (*around, *norms, ADAM)
    if (from_zero := rezero(context.model)) is not None:
        yield (from_zero, ADAM)
    yield (*around, *norms, drawn, ReplaceOptimizer(kind="adam", lr=1e-2))
    yield (*around, *norms)
    yield tuple(around)
    yield (*around, drawn, ADAM)
    yield (*norms, drawn, ADAM)
    yield tuple(norms)
    yield (*around, *norms, drawn, ReplaceOptimizer(kind="adam", lr=1e-3), ClipGradient(norm=1.0))
    yield (*around, *norms, drawn, ReplaceOptimizer(kind="sgd", lr=0.03))
