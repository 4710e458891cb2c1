"""Which parameters are trained, and what pulls at them."""

from collections.abc import Iterator
from dataclasses import replace

from bathyscope.core.loop_record import LoopRecord, ParameterUse
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import (
    MEASURED,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    When,
    problem_if,
)

USUAL_DECAY = 0.01


def frozen_parameters(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """All parameters, or most of them, without a gradient of their own."""
    facts = evidence.about("parameters")
    frozen, entries = facts.number("frozen_entries") or 0, facts.number("entries") or 1
    fraction = frozen / entries
    if fraction > thresholds["frozen_fraction"]:
        yield FROZEN_PARAMETERS.finding(
            problem_if(fraction == 1),
            score=fraction,
            frozen_fraction=fraction,
            frozen=facts.word("frozen_names"),
        )


FROZEN_PARAMETERS = Rule(
    code="frozen-parameters",
    stage=CausalStage.OPTIMIZER,
    cause="optimizer",
    title="Frozen parameters",
    explanation="Without requires_grad a parameter has no gradient and stays as it is.",
    source="autograd follows tensors that require a gradient",
    advice="If it is not intended: for p in model.parameters(): p.requires_grad_(True).",
    thresholds={
        "frozen_fraction": Threshold(
            0.5, "fraction of the parameters that are frozen", "most of them"
        )
    },
    when=("parameters.frozen_entries",),
    find=frozen_parameters,
    effects=("zero-gradient", "cut-gradient"),
)


def not_in_optimizer(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters with a gradient that no step will move."""
    facts = evidence.about("parameters")
    missing = facts.number("missing") or 0
    yield NOT_IN_OPTIMIZER.finding(Severity.PROBLEM, score=missing,
        num_parameters=missing, parameters=facts.word("missing_names"),
    )  # fmt: skip


def not_in_optimizer_in_loop(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters that get gradients at the steps of a loop and that no optimizer holds.

    Where it holds others by their names, they were replaced after it was made.
    """
    missing = _missing_in_loop(record)
    if missing:
        held = sum(p.numel for p in record.parameters if p.in_optimizer)
        left_out = sum(p.numel for p in missing)
        # a body without steps below a head that has them can be meant; half of a layer hardly
        layers = {p.name.rpartition(".")[0] for p in record.parameters if p.in_optimizer}
        is_part = any(p.name.rpartition(".")[0] in layers for p in missing if "." in p.name)
        is_thawed = all(p.was_frozen for p in missing)
        is_meant = left_out >= held and not is_part and not is_thawed
        severity = Severity.NOTE if is_meant else Severity.WARNING
        stepped = [p for p in record.parameters if p.in_optimizer]
        unused = {p.name for p in stepped if not p.with_gradient}
        # where it uses none of what it holds, it is the optimizer of another model
        is_own = any(p.with_gradient for p in stepped)
        replaced = unused & {p.name for p in missing} if is_own else None
        made_at = next((use.created_at for use in record.optimizers if use.created_at), None)
        result = NOT_IN_OPTIMIZER.finding(
            Severity.PROBLEM if replaced else severity, score=left_out / (held + left_out),
            num_parameters=len(missing), parameters=", ".join(p.name for p in missing[:4]),
            optimizer_made_at=made_at,
        )  # fmt: skip
        why = _REPLACED if replaced else _THAWED if is_thawed else result.why
        yield replace(result, why=why)


_REPLACED = (
    "They have a gradient, and no step ever moves them: the optimizer still holds the parameters that they "
    "replaced."
)


_THAWED = (
    "They were frozen when the optimizer was made, have a gradient since they were thawed, and no step ever "
    "moves them: optimizer.add_param_group, or a new optimizer."
)


def _missing_in_loop(record: LoopRecord) -> list[ParameterUse]:
    return [
        p
        for p in record.parameters
        if p.trainable
        and not p.in_optimizer
        and p.looks >= 4
        and (p.unstepped >= 0.5 * p.looks or (p.was_frozen and p.unstepped_since >= 4))
    ]


NOT_IN_OPTIMIZER = Rule(
    code="not-in-optimizer",
    stage=CausalStage.OPTIMIZER,
    cause="optimizer",
    title="Parameters that are missing from the optimizer",
    explanation="They have a gradient, and no step ever moves them.",
    source="an optimizer steps what it was given",
    advice="Build the optimizer from model.parameters(), after the last change to the model.",
    when=("parameters.missing",),
    find=not_in_optimizer,
    find_in_loop=not_in_optimizer_in_loop,
    effects=("loss-does-not-fall",),
)


def twice_in_optimizer(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters listed more than once."""
    facts = evidence.about("parameters")
    yield TWICE_IN_OPTIMIZER.finding(Severity.WARNING, score=1.0,
        parameters=facts.word("twice_names"),
    )  # fmt: skip


TWICE_IN_OPTIMIZER = Rule(
    code="twice-in-optimizer",
    stage=CausalStage.OPTIMIZER,
    cause="optimizer",
    title="Parameters that are in the optimizer twice",
    explanation="Each step moves them once for every time that they are listed.",
    source="an optimizer steps what it was given",
    advice="List every parameter once.",
    when=("parameters.twice",),
    find=twice_in_optimizer,
)


def unreached_parameters(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters that the loss does not depend on; half of those that are trained is worth a look.

    Where the others are frozen, as beside adapters, what is trained was chosen: then it is a problem.
    """
    facts = evidence.about("parameters")
    frozen = facts.number("frozen") or 0
    number, total = facts.number("unreached") or 0, (facts.number("parameters") or 1) - frozen
    severe = Severity.PROBLEM if frozen > total else Severity.WARNING
    yield UNREACHED_PARAMETERS.finding(
        severe if number >= total / 2 else Severity.NOTE,
        score=number / total,
        num_parameters=number,
        parameters=facts.word("unreached_names"),
    )


def unreached_in_loop(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters of an optimizer that have had no gradient at any step."""
    replaced = {p.name for p in _missing_in_loop(record)}  # by others of the same name
    held = [
        p
        for p in record.parameters
        if p.in_optimizer and p.trainable and p.looks >= 4 and p.name not in replaced
    ]
    unreached = [p for p in held if p.with_gradient == 0]
    total, number = sum(p.numel for p in held), sum(p.numel for p in unreached)
    if unreached and len(unreached) < len(held):
        yield UNREACHED_PARAMETERS.finding(
            problem_if(number > total / 2), score=number / total,
            num_parameters=len(unreached), parameters=", ".join(p.name for p in unreached[:4]),
        )  # fmt: skip


UNREACHED_PARAMETERS = Rule(
    code="unreached-parameters",
    stage=CausalStage.OPTIMIZER,
    cause="data-flow",
    title="Parameters that the loss does not depend on",
    explanation="No gradient reaches them: they stay as they were initialized.",
    source="the chain rule",
    advice="Use them in forward(), or remove them.",
    when=("parameters.unreached",),
    find=unreached_parameters,
    find_in_loop=unreached_in_loop,
)


def heavy_weight_decay(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The pull of weight decay against that of the loss, at the median weight.

    A decay of the usual size outweighs only a gradient that has vanished, which is then the fault.
    """
    facts = evidence.about("parameters")
    ratio, decay = facts.number("decay_over_gradient"), facts.number("largest_decay") or 0.0
    if ratio is not None and ratio > thresholds["decay"] and decay > USUAL_DECAY:
        yield HEAVY_WEIGHT_DECAY.finding(
            problem_if(ratio > thresholds["decay_severe"]),
            score=decades(ratio),
            decay_over_gradient=ratio,
            weight_decay=decay,
        )


HEAVY_WEIGHT_DECAY = Rule(
    code="heavy-weight-decay",
    stage=CausalStage.OPTIMIZER,
    cause="optimizer",
    title="Weight decay that outweighs the gradient",
    explanation="The weights decay to zero faster than the gradient of the loss can hold them.",
    source="λ‖W‖ against ‖∂E/∂W‖",
    advice="Lower weight_decay: 1e-4 to 1e-2 is usual.",
    thresholds={
        "decay": Threshold(
            1.0, "pull of weight decay over that of the gradient", "the stronger one"
        ),
        "decay_severe": Threshold(10.0, "the same, a problem", MEASURED),
    },
    when=(When("parameters.decay_over_gradient", above="decay"),),
    find=heavy_weight_decay,
    effects=("large-update", "overshooting-step", "loss-does-not-fall"),
)
