"""Remedies that findings ask for, by the names that rules have for them."""

from collections.abc import Iterator, Sequence
from typing import Literal

from bathyscope.core.records import Finding
from bathyscope.rules.registry import rule_of
from bathyscope.rules.rule import Targeted
from bathyscope.rules.targeted import blocks, ends, transformers
from bathyscope.rules.targeted.context import Context, Steps, TargetedRemedy

TARGETED: dict[str, TargetedRemedy] = {
    "standardize-inputs": ends.standardize_inputs,
    "add-activations": ends.add_activations,
    "end-with-sigmoid": ends.end_with_sigmoid,
    "end-with-softmax": ends.end_with_softmax,
    "drop-end-activation": ends.drop_end_activation,
    "scale-outputs": ends.scale_outputs,
    "shrink-embedding": transformers.shrink_embedding,
    "shrink-head": transformers.shrink_head,
    "tame-post-norm": transformers.tame_post_norm,
    "normalize-queries": transformers.normalize_queries,
    "reinitialize-attention": transformers.reinitialize_named,
    "reinitialize-blocks": blocks.reinitialize_blocks,
    "reinitialize-first-block": blocks.reinitialize_first_block,
    "project-transitions": blocks.project_transitions,
    "solve-prediction-weights": blocks.solve_prediction_weights,
    "stable-learning-rate": blocks.stable_learning_rate,
}
"""Those of the ends in the order in which one recipe takes them."""


def targeted_recipes(context: Context) -> Iterator[Steps]:
    """What the findings ask for, each remedy once with all findings whose rules name it."""
    for remedy, findings in _asked(context, "remedies").items():
        yield from _recipes(remedy, context, findings)


def end_repairs(context: Context) -> Steps:
    """The steps that findings ask for at input and output, in one recipe; one layer is changed once."""
    asked = _asked(context, "repairs")
    known = [name for name in TARGETED if name in asked]
    chosen: dict[object, Steps] = {}
    for remedy in dict.fromkeys([*known, *asked]):
        for steps in _recipes(remedy, context, asked[remedy]):
            chosen.setdefault(getattr(steps[0], "layer", remedy), steps)
    return tuple(step for steps in chosen.values() for step in steps)


def _asked(context: Context, how: Literal["remedies", "repairs"]) -> dict[Targeted, list[Finding]]:
    """Remedies with the findings whose rules name them, in the order of the findings."""
    asked: dict[Targeted, list[Finding]] = {}
    for finding in context.findings:
        for remedy in getattr(rule_of(finding.code), how):
            asked.setdefault(remedy, []).append(finding)
    return asked


def _recipes(remedy: Targeted, context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    function = TARGETED[remedy] if isinstance(remedy, str) else remedy
    return function(context, findings)
