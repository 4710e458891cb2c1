"""Which recipes enter the race: those that answer the findings first, then what has helped before."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from bathyscope.certificates import best_prediction_weights
from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.errors import UsageError
from bathyscope.core.records import Block, Finding
from bathyscope.diagnosis.end_answers import end_answers
from bathyscope.diagnosis.rules.training import USUAL_DECAY
from bathyscope.diagnosis.transformer_answers import rezero, transformer_answers
from bathyscope.remedies import (
    AddNorms,
    AddShortcuts,
    ClipGradient,
    DecayWeights,
    DrawWeights,
    ProjectTransitions,
    Recipe,
    ReplaceOptimizer,
    Rung,
    ScaleRate,
    ScaleWeights,
    SetWeights,
    StartRecurrence,
    TailorActivations,
    WarmUp,
    tailored_slope,
    transition_layers,
)
from bathyscope.remedies.activations import activation_names
from bathyscope.remedies.places import Places, last_layers, places_of, unit_variance_factors
from bathyscope.remedies.recipe import AnyRemedy

LOCAL = frozenset(
    {
        "not-finite",
        "exploding-weights",
        "ill-conditioned-weights",
        "dead-units",
        "silent-branch",
        "batchnorm-masks",
        "flat-start",
        "flat-to-second-order",
    }
)
"""Faults of single blocks: what they name is drawn anew."""

ADAM = ReplaceOptimizer(kind="adam", lr=3e-3)
"""What trained 68 of 68 failing networks together with shortcuts, norms and a start that fits."""


@dataclass(frozen=True, slots=True)
class Patient:
    """What is to be treated: the model, the optimizer meant for it, and what the diagnosis knows."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Batch
    blocks: Blocks
    findings: tuple[Finding, ...]
    loss: LossFn

    def blocks_named_by(self, codes: frozenset[str]) -> list[Block]:
        """The blocks that findings of these codes name."""
        labels = {label for f in self.findings if f.code in codes for label in f.blocks}
        return [b for b in self.blocks if b.label in labels]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recipe in the race; one that `answers` a finding is also tried where the network trains."""

    recipe: Recipe
    answers: bool = False
    surest: bool = False


def candidates(patient: Patient, allow: tuple[Rung, ...], most: int) -> list[Candidate]:
    """The recipes that enter, at most so many, none deeper than what is allowed.

    What answers a finding comes first, then each rung's own in turns, so that every rung is heard; the
    surest of the deepest rung is always among them.
    """
    places = places_of(patient.model, patient.batch[0], patient.blocks)
    by_rung = {
        "settings": list(_settings(patient)),
        "weights": list(_weights(patient, places)),
        "activations": list(_activations(patient, places)),
        "structure": list(_structure(patient, places)),
    }
    answers = [
        Candidate(Recipe(steps=steps), answers=True)
        for steps in _answers(patient)
        if all(step.rung in allow for step in steps)
    ]
    chosen = {c.recipe.to_json(): c for c in answers}
    lists = [
        [r for r in (Recipe(steps=s) for s in by_rung[rung]) if r.steps and _is_within(r, allow)]
        for rung in allow
    ]
    if "structure" in allow and "activations" in allow:
        del lists[allow.index("activations")][
            1:
        ]  # one is heard; the others wait for their own race
    surest = next((recipes[0] for recipes in reversed(lists) if recipes), None)
    if surest is not None:
        chosen[surest.to_json()] = Candidate(surest, surest=True)
    for turn in range(max(map(len, lists), default=0)):
        for recipes in reversed(lists):
            if turn < len(recipes) and len(chosen) < most:
                chosen.setdefault(recipes[turn].to_json(), Candidate(recipes[turn]))
    return list(chosen.values())[:most]


def _is_within(recipe: Recipe, allow: tuple[Rung, ...]) -> bool:
    return all(step.rung in allow for step in recipe.steps)


Steps = tuple[AnyRemedy, ...]


def _answers(patient: Patient) -> Iterator[Steps]:
    """What a finding asks for by itself."""
    yield from transformer_answers(patient.model, patient.findings)
    codes = {f.code for f in patient.findings}
    named = patient.blocks_named_by(LOCAL)
    if named:
        yield (DrawWeights(gain=math.sqrt(2), layers=tuple(dict.fromkeys(b.name for b in named))),)
    if any(
        b.changes_dimension for b in patient.blocks_named_by(frozenset({"not-norm-preserving"}))
    ):
        layers = tuple(transition_layers(patient.model))
        if layers:
            yield (ProjectTransitions(layers=layers),)
    if "worse-than-linear" in codes and (solved := _solved(patient)) is not None:
        yield (solved,)
    told = next((f.evidence for f in patient.findings if f.code == "unstable-rate"), None)
    if told is not None:
        rate, stable = told["learning_rate"], told["stable_rate"]
        assert isinstance(rate, float)
        assert isinstance(stable, float)
        # a tenth of what the curvature allows: it mostly grows once training begins
        yield (ScaleRate(factor=stable / (10 * rate)),)
    if any(group.get("weight_decay", 0) > USUAL_DECAY for group in patient.optimizer.param_groups):
        yield (DecayWeights(value=0.0),)


def _solved(patient: Patient) -> SetWeights | None:
    try:
        values = best_prediction_weights(patient.model, patient.batch, loss=patient.loss)
    except UsageError:  # outside the family, or nothing to solve for
        return None
    nested: dict[str, object] = {name: value.tolist() for name, value in values.items()}
    return SetWeights(values=nested, purpose="prediction weights solved for")


def _settings(patient: Patient) -> Iterator[Steps]:
    yield (ADAM,)
    for factor in (0.1, 10.0, 0.01):
        yield (ScaleRate(factor=factor),)
    yield ReplaceOptimizer(kind="adam", lr=3e-4), ClipGradient(norm=1.0)
    yield (ScaleRate(factor=100.0),)
    yield ReplaceOptimizer(kind="adam", lr=1e-2), WarmUp(steps=50), ClipGradient(norm=1.0)
    yield (ScaleRate(factor=1e-3),)
    yield ReplaceOptimizer(kind="sgd", lr=0.03), WarmUp(steps=20), ClipGradient(norm=1.0)


def _weights(patient: Patient, places: Places) -> Iterator[Steps]:
    drawn = DrawWeights(gain=places.gain)
    if any(isinstance(m, (nn.RNNBase, nn.RNNCellBase)) for m in patient.model.modules()):
        yield StartRecurrence(), drawn, ADAM, ClipGradient(norm=1.0)
        yield StartRecurrence(), ADAM, ClipGradient(norm=1.0)
    yield drawn, ADAM
    yield (drawn,)
    factors = unit_variance_factors(patient.model, patient.batch[0], patient.blocks)
    if factors:
        even = ScaleWeights(factors=factors, purpose="rescaled to unit variance")
        yield even, ADAM
        yield (even,)
    if places.residual:
        ends = last_layers(patient.model, places.residual)
        zero = dict.fromkeys(ends, 0.0)
        yield ScaleWeights(factors=zero, purpose="last layers of branches zeroed"), ADAM
        scale = dict.fromkeys(ends, len(ends) ** -0.5)
        yield (ScaleWeights(factors=scale, purpose="branches scaled by 1/√depth"),)
        yield drawn, ScaleWeights(factors=zero, purpose="last layers of branches zeroed"), ADAM
    orthogonal = DrawWeights(scheme="delta-orthogonal", gain=places.gain)
    yield orthogonal, ReplaceOptimizer(kind="adam", lr=1e-3), ClipGradient(norm=1.0)
    yield drawn, ScaleRate(factor=0.1)
    yield drawn, ReplaceOptimizer(kind="adam", lr=3e-4), ClipGradient(norm=1.0)


def _activations(patient: Patient, places: Places) -> Iterator[Steps]:
    """Tailored rectifiers, for networks without shortcuts of their own, with rates that suit them."""
    layers = activation_names(patient.model)
    slope = tailored_slope(len(layers)) if layers else 0.0
    if slope == 0 or places.residual:  # so few layers need no slope: a start that fits does it
        return
    tailored = TailorActivations(layers=layers, slope=slope)
    orthogonal = DrawWeights(scheme="delta-orthogonal")
    yield tailored, orthogonal, ReplaceOptimizer(kind="adam", lr=3e-4)
    yield tailored, orthogonal, ReplaceOptimizer(kind="sgd", lr=3e-3), ClipGradient(norm=1.0)
    yield tailored, orthogonal, ReplaceOptimizer(kind="sgd", lr=1e-3)


def _structure(patient: Patient, places: Places) -> Iterator[Steps]:
    """The surest first: S + N + R + A of the measurements in docs/treatment.md; then less of it."""
    scale = max(1, len(places.spans)) ** -0.5
    around = [AddShortcuts(spans=places.spans, scale=scale)] if places.spans else []
    norms = [AddNorms(layers=places.norms)] if places.norms else []
    drawn = DrawWeights(gain=places.gain)
    meets = end_answers(patient.model, patient.batch, patient.findings)
    recurrent = any(isinstance(m, nn.RNNBase) for m in patient.model.modules())
    cell = [StartRecurrence()] * recurrent
    clip = [ClipGradient(norm=1.0)] * recurrent
    yield (*meets, *around, *norms, *cell, drawn, ADAM, *clip)
    if meets:
        yield meets
        yield (*meets, ADAM)
    yield (*around, *norms, ADAM)
    if (from_zero := rezero(patient.model)) is not None:
        yield (from_zero, ADAM)
    yield (*around, *norms, drawn, ReplaceOptimizer(kind="adam", lr=1e-2))
    yield (*around, *norms)
    yield tuple(around)
    yield (*around, drawn, ADAM)
    yield (*norms, drawn, ADAM)
    yield tuple(norms)
    yield (*around, *norms, drawn, ReplaceOptimizer(kind="adam", lr=1e-3), ClipGradient(norm=1.0))
    yield (*around, *norms, drawn, ReplaceOptimizer(kind="sgd", lr=0.03))
