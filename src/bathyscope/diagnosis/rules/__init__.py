"""Rules from measurements to findings: one small function each, listed here by the code they may find."""

from collections.abc import Callable, Iterator

from bathyscope.core.records import Finding
from bathyscope.diagnosis.evidence import Evidence, in_order
from bathyscope.diagnosis.rules.attention import (
    attention_logit_growth,
    dead_heads,
    entropy_collapse,
    masked_row,
    missing_attention_scale,
    uniform_attention,
)
from bathyscope.diagnosis.rules.curvature import flat_to_second_order, unstable_rate
from bathyscope.diagnosis.rules.family import narrow_residual_space, worse_than_linear
from bathyscope.diagnosis.rules.gradients import (
    cut_gradient,
    exploding_or_vanishing_gradient,
    flat_start,
    not_norm_preserving,
    vanishing_over_time,
)
from bathyscope.diagnosis.rules.inputs import (
    blank_input,
    constant_columns,
    repeated_columns,
    repeated_samples,
    unscaled_input,
)
from bathyscope.diagnosis.rules.labels import (
    constant_labels,
    ignored_labels,
    labels_out_of_range,
    missing_classes,
    unrelated_labels,
    unscaled_targets,
    wrong_number_of_outputs,
)
from bathyscope.diagnosis.rules.losses import (
    broadcast_loss,
    class_distance,
    loss_not_finite,
    negated_loss,
    overshooting_step,
    poor_start,
    small_budget,
    summed_loss,
)
from bathyscope.diagnosis.rules.not_finite import not_finite
from bathyscope.diagnosis.rules.outputs import (
    clipped_output,
    constant_output,
    one_unit_softmax,
    output_misfit,
    saturated_output,
    sigmoid_for_one_class,
    softmax_for_several_labels,
    unreachable_targets,
)
from bathyscope.diagnosis.rules.representations import (
    collapsed_representation,
    narrow_width,
    precision_loss,
    singular_representation,
)
from bathyscope.diagnosis.rules.samples import equal_samples
from bathyscope.diagnosis.rules.stream import (
    embedding_scale,
    output_logit_drift,
    positions_unused,
    post_norm_imbalance,
    stream_outgrows_branches,
    token_collapse,
)
from bathyscope.diagnosis.rules.training import (
    eval_mode,
    frozen_parameters,
    heavy_dropout,
    heavy_weight_decay,
    linear_network,
    norm_of_one_value,
    not_in_optimizer,
    twice_in_optimizer,
    unreached_parameters,
    zero_gradient,
)
from bathyscope.diagnosis.rules.units import batchnorm_masks, dead_units, silent_branch
from bathyscope.diagnosis.rules.updates import large_update, small_update
from bathyscope.diagnosis.rules.weights import (
    exploding_weights,
    ill_conditioned_weights,
    zero_weights,
)
from bathyscope.diagnosis.thresholds import Thresholds
from bathyscope.diagnosis.track_record import Records, judge_by_record

Rule = Callable[[Evidence, Thresholds], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    blank_input,
    unscaled_input,
    constant_columns,
    repeated_columns,
    repeated_samples,
    ignored_labels,
    constant_labels,
    labels_out_of_range,
    wrong_number_of_outputs,
    missing_classes,
    unscaled_targets,
    unrelated_labels,
    linear_network,
    narrow_width,
    one_unit_softmax,
    output_misfit,
    sigmoid_for_one_class,
    softmax_for_several_labels,
    clipped_output,
    unreachable_targets,
    class_distance,
    broadcast_loss,
    negated_loss,
    summed_loss,
    loss_not_finite,
    frozen_parameters,
    not_in_optimizer,
    twice_in_optimizer,
    unreached_parameters,
    heavy_weight_decay,
    eval_mode,
    heavy_dropout,
    norm_of_one_value,
    saturated_output,
    zero_gradient,
    constant_output,
    poor_start,
    overshooting_step,
    small_budget,
    not_finite,
    masked_row,
    missing_attention_scale,
    embedding_scale,
    dead_heads,
    exploding_weights,
    ill_conditioned_weights,
    zero_weights,
    dead_units,
    silent_branch,
    batchnorm_masks,
    precision_loss,
    entropy_collapse,
    attention_logit_growth,
    uniform_attention,
    token_collapse,
    stream_outgrows_branches,
    post_norm_imbalance,
    output_logit_drift,
    positions_unused,
    collapsed_representation,
    singular_representation,
    cut_gradient,
    not_norm_preserving,
    exploding_or_vanishing_gradient,
    vanishing_over_time,
    flat_start,
    flat_to_second_order,
    large_update,
    small_update,
    unstable_rate,
    narrow_residual_space,
    worse_than_linear,
    equal_samples,
)

# They compare the samples of a batch, and where there is but one they would blame the network.
_OF_DIFFERENT_SAMPLES: frozenset[Rule] = frozenset(
    {dead_units, batchnorm_masks, collapsed_representation, singular_representation}
)
# A batch norm gives equal samples its bias, and lets no gradient of theirs through.
_OF_GRADIENTS: frozenset[Rule] = frozenset(
    {cut_gradient, not_norm_preserving, exploding_or_vanishing_gradient, small_update}
)


def findings_of(
    evidence: Evidence,
    thresholds: Thresholds,
    *,
    silenced: frozenset[str] = frozenset(),
    records: Records | None = None,
) -> tuple[Finding, ...]:
    """Everything the rules find, gravest first, without the codes and causes a user has silenced.

    Severities follow from the track records of the codes where they have one.
    """
    told = findings_of_rules(evidence, thresholds)
    found = [f for f in told if f.code not in silenced and f.cause not in silenced]
    return in_order(judge_by_record(found, records), evidence.blocks)


def findings_of_rules(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """What each rule says by itself, with the severity that it gives: what track records count."""
    left_out = _left_out(evidence)
    for rule in RULES:
        if rule not in left_out:
            yield from rule(evidence, thresholds)


def _left_out(evidence: Evidence) -> frozenset[Rule]:
    if not evidence.samples_equal:
        return frozenset()
    normalised = any(
        v is not None for v in evidence.column("normalisation", "variance_over_epsilon")
    )
    return _OF_DIFFERENT_SAMPLES | (_OF_GRADIENTS if normalised else frozenset())
