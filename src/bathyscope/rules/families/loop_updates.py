"""Weights that a step does not move, and weights that something else moves."""

from collections.abc import Iterator, Sequence
from statistics import median

from bathyscope.core.loop_record import LoopRecord, ParameterUse
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.families.loop_gradients import SMALLEST_STEPS
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, When, problem_if

_HALF = ("bfloat16", "float16")
_FIRST_LOOKS = 8
_FIRST_ENTRIES = 64
"""Entries with a gradient before a parameter is judged."""


_SHORT = 1e-6
"""‖ΔW‖/‖W‖: a step of this size is rounded away in bfloat16 and float16, and not in float32."""


def rounded_next_updates(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks of half-precision weights most of which the optimizer's next step leaves as they are."""
    lost, ratios = evidence.column("updates", "lost"), evidence.column("updates", "ratio")
    out = [
        i
        for i, fraction in enumerate(lost)
        if fraction is not None
        and fraction > thresholds["lost_updates"]
        and (ratios[i] or 0.0) > _SHORT
    ]
    if out:
        out.sort(key=lambda i: -(lost[i] or 0.0))
        yield ROUNDED_UPDATES.finding(
            problem_if(2 * len(out) > sum(fraction is not None for fraction in lost)),
            evidence.labels(out),
            score=lost[out[0]] or 0.0,
            fraction_unchanged=lost[out[0]],
            update_ratio=ratios[out[0]],
            num_blocks=len(out),
        )


def rounded_updates(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Half-precision weights of which most have a gradient and do not move."""
    half = [p for p in record.parameters if p.in_optimizer and p.dtype in _HALF]
    judged = [p for p in half if p.entries >= _FIRST_ENTRIES]
    lost = [p for p in judged if p.entries_unchanged > thresholds["lost_updates"] * p.entries]
    if not lost:
        return
    entries = sum(p.entries for p in judged)
    unchanged = sum(p.entries_unchanged for p in judged)
    fraction = sum(p.numel for p in lost) / sum(p.numel for p in judged)
    yield ROUNDED_UPDATES.finding(
        problem_if(fraction > 0.5), score=unchanged / entries,
        dtype=lost[0].dtype, num_parameters=len(lost), parameters=_names(lost),
        fraction_unchanged=unchanged / entries,
        title=f"A step leaves {unchanged / entries:.0%} of the {lost[0].dtype} weights that have a "
        "gradient bit for bit as they were",
    )  # fmt: skip


ROUNDED_UPDATES = Rule(
    code="rounded-updates",
    stage=CausalStage.LOOP,
    cause="precision",
    title="Updates that are rounded away",
    explanation="An update below half the spacing of the weight's dtype is lost in the addition.",
    source="rounding: bfloat16 has 8 significant bits, float16 has 11",
    advice="Keep the weights in float32 and compute under autocast, or use stochastic rounding.",
    thresholds={
        "lost_updates": Threshold(
            0.5,
            "fraction of the entries with a gradient that a step leaves unchanged",
            "most of them; at learning rates that fit the dtype it is below a third",
        )
    },
    reads=("updates.lost", "updates.ratio"),
    when=(When("updates.lost", above="lost_updates"),),
    find=rounded_next_updates,
    find_in_loop=rounded_updates,
    effects=("small-update", "small-budget"),
)


def unwritten_updates(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters with gradients that no step has moved, though a plain step would have."""
    stuck = [
        p
        for p in record.parameters
        if p.in_optimizer
        and p.trainable
        and p.dtype not in _HALF
        and p.looks >= thresholds["loop_steps"]
        and p.moved == 0
        and p.entries >= thresholds["loop_steps"]
        and p.entries_unchanged == p.entries
        and p.relative_gradient > thresholds["plain_update"]
    ]
    if not stuck:
        return
    strided = [p for p in stuck if not p.is_contiguous]
    why = " (not contiguous in memory)" if len(strided) == len(stuck) else ""
    yield UNWRITTEN_UPDATES.finding(
        Severity.PROBLEM, score=float(len(stuck)),
        num_parameters=len(stuck), parameters=_names(stuck), not_contiguous=len(strided),
        at=record.optimizers[0].stepped_at if record.optimizers else None,
        title=f"{_names(stuck)}{why}: a gradient at every step, and no step writes to it",
    )  # fmt: skip


UNWRITTEN_UPDATES = Rule(
    code="unwritten-updates",
    stage=CausalStage.LOOP,
    cause="optimizer",
    title="Updates that are computed and not written",
    explanation="The optimizer writes somewhere else: into a copy, or into a tensor that was replaced.",
    source="lr · gradient is far above the rounding of the weight",
    advice="Make the parameter contiguous, or use another implementation of the optimizer (foreach=False).",
    thresholds={
        "loop_steps": SMALLEST_STEPS,
        "plain_update": Threshold(
            1e-6,
            "lr · |gradient| / |weight| of an entry that did not move",
            "ten times float32's ε",
        ),
    },
    find_in_loop=unwritten_updates,
)


def swallowed_next_updates(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks most of whose gradients lie below the epsilon of Adam's next step."""
    fractions = evidence.column("updates", "below_epsilon")
    out = [i for i, f in enumerate(fractions) if (f or 0.0) > thresholds["below_epsilon"]]
    if 2 * len(out) > sum(f is not None for f in fractions):
        out.sort(key=lambda i: -(fractions[i] or 0.0))
        yield SWALLOWED_BY_EPSILON.finding(
            Severity.WARNING,
            evidence.labels(out),
            score=fractions[out[0]] or 0.0,
            fraction_below=fractions[out[0]],
            num_blocks=len(out),
        )


def swallowed_by_epsilon(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Adam whose second moments lie below its epsilon."""
    for p in record.parameters:
        if p.looks >= thresholds["loop_steps"] and p.swallowed >= 0.8 * p.looks:
            epsilon = next((o.epsilon for o in record.optimizers if o.epsilon), None)
            yield SWALLOWED_BY_EPSILON.finding(
                Severity.WARNING, score=p.swallowed / p.looks, parameters=p.name, eps=epsilon
            )
            return


SWALLOWED_BY_EPSILON = Rule(
    code="swallowed-by-epsilon",
    stage=CausalStage.LOOP,
    cause="optimizer",
    title="Gradients below the optimizer's epsilon",
    explanation="The update is lr · g / ε rather than lr · g / √v: far smaller than the learning rate says.",
    source="Adam divides by √v + ε",
    advice="Lower eps, or scale the loss up.",
    thresholds={
        "loop_steps": SMALLEST_STEPS,
        "below_epsilon": Threshold(
            0.9,
            "fraction of the entries with a gradient whose second moment is below a tenth of ε",
            "nearly all: a few such entries are harmless",
        ),
    },
    reads=("updates.below_epsilon",),
    when=(When("updates.below_epsilon", above="below_epsilon"),),
    find=swallowed_next_updates,
    find_in_loop=swallowed_by_epsilon,
    effects=("small-update", "small-budget"),
)


def half_underflow(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Passes in float16 whose loss is never scaled."""
    models = [m for m in record.models if m.is_trained and m.half_precision == "float16"]
    zeros, tiny = record.data.half_zero or 0.0, record.data.half_subnormal or 0.0
    if not models or record.scaler_calls or not record.backward_passes:
        return
    yield HALF_UNDERFLOW.finding(
        problem_if(max(zeros, tiny) >= thresholds["underflow"]), score=max(zeros, tiny),
        zeros=zeros, subnormal=tiny, at=models[0].called_at,
        title=f"float16 without loss scaling: {zeros:.0%} of the gradient at the output is zero, "
        f"{tiny:.0%} of the rest below float16's normal numbers",
    )  # fmt: skip


HALF_UNDERFLOW = Rule(
    code="half-underflow",
    stage=CausalStage.LOOP,
    cause="precision",
    title="Half precision without loss scaling",
    explanation="Gradients below 6e-8 are zero in float16, and those below 6e-5 lose their digits.",
    source="the smallest numbers of float16; Micikevicius et al. 2018",
    advice="Scale the loss: torch.amp.GradScaler, or compute in bfloat16.",
    thresholds={
        "underflow": Threshold(
            0.3, "fraction of zeros, or of subnormal numbers", "a third of the signal"
        )
    },
    find_in_loop=half_underflow,
    effects=("zero-gradient", "small-update"),
)


def weights_written(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Weights that change between steps, now and then and by more than steps change them."""
    for use in record.optimizers:
        rows = record.optimizer_rows(use.index)
        written = [row for row in rows if row.num_written]
        if len(written) < 2:
            continue
        held = [p for p in record.parameters if p.writes and p.in_optimizer]
        ratio = max((p.largest_write / max(p.largest_update, 1e-12) for p in held), default=0.0)
        is_habit = len(written) > 0.5 * use.steps  # a projection after each step, as in a WGAN
        severe = ratio >= thresholds["write_over_update"] and not is_habit
        yield WEIGHTS_WRITTEN.finding(
            Severity.PROBLEM if severe else Severity.NOTE, score=ratio if severe else 0.0,
            times=len(written), of=use.steps, first=written[0].step, parameters=_names(held),
            largest_over_update=ratio, at=use.stepped_at,
            title=f"Weights were changed outside of a step {len(written)} times, first before step "
            f"{written[0].step}, by up to {ratio:.3g} times what a step changes",
        )  # fmt: skip


WEIGHTS_WRITTEN = Rule(
    code="weights-written",
    stage=CausalStage.LOOP,
    cause="loop",
    title="Weights that something other than the optimizer changes",
    explanation="What was learned since is overwritten: an average that is copied in and not taken out "
    "again, a checkpoint that is loaded, a copy that is shared.",
    source="the weights at the end of a step and at the beginning of the next",
    advice="Copy averaged weights into a model of their own, or restore the weights after the evaluation.",
    thresholds={
        "write_over_update": Threshold(
            3.0,
            "largest change by a write over the largest by a step",
            "Lookahead's interpolation takes back about half of five steps",
        )
    },
    find_in_loop=weights_written,
)


def loaded_then_overwritten(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Weights that were loaded and changed before the first step."""
    for model in record.models:
        names = model.overwritten_after_load
        if names:
            yield LOADED_THEN_OVERWRITTEN.finding(
                Severity.WARNING, score=float(len(names)),
                parameters=", ".join(names[:4]), num_parameters=len(names),
                title=f"{', '.join(names[:3])}: loaded from a state dict, and changed again before the "
                "first step",
            )  # fmt: skip


LOADED_THEN_OVERWRITTEN = Rule(
    code="loaded-then-overwritten",
    stage=CausalStage.LOOP,
    cause="resume",
    title="Loaded weights that are overwritten before the training",
    explanation="An initializer that runs after loading throws away what was pretrained.",
    source="the weights after load_state_dict and before the first step",
    advice="Initialize first and load afterwards; re-initialize only what is new.",
    find_in_loop=loaded_then_overwritten,
)


def _names(parameters: Sequence[ParameterUse], most: int = 4) -> str:
    names = [p.name for p in parameters]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def heavy_penalty(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """First steps whose gradients are the weights themselves, up to a factor."""
    for use in record.optimizers:
        looks = [r.along_weights for r in record.optimizer_rows(use.index)[:_FIRST_LOOKS]]
        cosines = [c for c in looks if c is not None]
        if len(cosines) == _FIRST_LOOKS and median(cosines) > thresholds["along_weights"]:
            yield HEAVY_PENALTY.finding(
                Severity.WARNING, score=median(cosines), cosine=median(cosines), at=use.backward_at
            )


HEAVY_PENALTY = Rule(
    code="heavy-penalty",
    stage=CausalStage.LOOP,
    cause="loss",
    title="A penalty on the weights outweighs the rest of the loss",
    explanation="The gradient points along the weights themselves: it shrinks them to nothing, whatever the "
    "data are.",
    source="∂(λ‖W‖²)/∂W = 2λW, and that of a loss on data has no such direction",
    advice="Lower the factor of the penalty (1e-4 to 1e-2 is usual for a sum of squares), or use "
    "weight_decay.",
    thresholds={
        "along_weights": Threshold(
            0.8, "cosine between gradient and weights", "of random directions it is near 0"
        )
    },
    find_in_loop=heavy_penalty,
    effects=("loss-does-not-fall", "constant-output"),
)
