"""Remedies for what single blocks and the learning rate show."""

import math
from collections.abc import Iterator, Sequence

from bathyscope.certificates import best_prediction_weights
from bathyscope.core.errors import UsageError
from bathyscope.core.records import Finding
from bathyscope.remedies import (
    DrawWeights,
    ProjectTransitions,
    ScaleRate,
    SetWeights,
    transition_layers,
)
from bathyscope.rules.targeted.context import Context, Steps


def reinitialize_blocks(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """All blocks that the findings name, with He's gain."""
    named = {label for finding in findings for label in finding.blocks}
    layers = dict.fromkeys(block.name for block in context.blocks if block.label in named)
    if layers:
        yield (DrawWeights(gain=math.sqrt(2), layers=tuple(layers)),)


def reinitialize_first_block(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """The block where each finding begins."""
    for finding in findings:
        yield (DrawWeights(layers=finding.blocks[:1]),)


def project_transitions(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """The Procrustes projection of all transitions, where a block that changes dimension is named."""
    named = {label for finding in findings for label in finding.blocks}
    layers = tuple(transition_layers(context.model))
    if layers and any(b.changes_dimension for b in context.blocks if b.label in named):
        yield (ProjectTransitions(layers=layers),)


def solve_prediction_weights(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """The prediction weights of a NEst, solved for on its features."""
    try:
        values = best_prediction_weights(context.model, context.batch, loss=context.loss)
    except UsageError:  # outside the family, or nothing to solve for
        return
    nested: dict[str, object] = {name: value.tolist() for name, value in values.items()}
    yield (SetWeights(values=nested, purpose="prediction weights solved for"),)


def stable_learning_rate(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """A tenth of what the curvature allows: it mostly grows once training begins."""
    rate, stable = (findings[0].evidence[name] for name in ("learning_rate", "stable_rate"))
    assert isinstance(rate, float)
    assert isinstance(stable, float)
    yield (ScaleRate(factor=stable / (10 * rate)),)
