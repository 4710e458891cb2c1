"""Steps of the optimizer that are as large as the weights, or too small to change them."""

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from statistics import fmean

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import (
    NINE_IN_TEN,
    ROUNDING,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    Transition,
    When,
    problem_if,
)

_SIZEABLE = "Steps that are a good part of the weights"


def large_update(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with a layer that one step would replace, the worst first.

    Stem and head are named where a step replaces them, not where it is a good part of them: theirs are
    the largest steps of many a healthy network. A layer that a batch norm follows may take a longer
    step, as long as that lowers the loss.
    """
    evidence = evidence.everywhere
    ratios = evidence.column("updates", "largest_ratio")
    layers = evidence.description("updates", "largest_ratio_layer")
    limits = _limits(evidence, thresholds)
    large = [
        i for i, r in enumerate(ratios) if r is not None and r > thresholds["large_update_warning"]
    ]
    severe = [i for i in large if (ratios[i] or 0.0) > limits[i]]
    mild = [i for i in large if i not in severe and evidence.blocks[i].part == "body"]
    for severity, out in ((Severity.PROBLEM, severe), (Severity.WARNING, mild)):
        if out:
            out.sort(key=lambda i: -(ratios[i] or 0.0))
            result = LARGE_UPDATE.finding(
                severity,
                evidence.labels(out),
                score=decades(ratios[out[0]] or 1.0),
                update_ratio=ratios[out[0]],
                layer=layers[out[0]],
                num_blocks=len(out),
            )
            yield result if (ratios[out[0]] or 0.0) > 1.0 else replace(result, title=_SIZEABLE)
    if not large:
        yield from _large_at_the_peak(evidence, thresholds)


def _large_at_the_peak(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks of the body that a step at the schedule's largest rate would replace: ‖ΔW‖ grows with the rate.

    A layer that a batch norm follows lengthens its weights during the warm-up, and is left out.
    """
    norms = evidence.column("normalization", "variance_over_epsilon")
    steps = {
        i: ratio * evidence.rate_growth
        for i, ratio in enumerate(evidence.column("updates", "largest_ratio"))
        if ratio is not None and norms[i] is None and evidence.blocks[i].part == "body"
    }
    large = [i for i, step in steps.items() if step > thresholds["large_update_at_peak"]]
    if large:
        large.sort(key=lambda i: -steps[i])
        yield LARGE_UPDATE.finding(
            Severity.WARNING,
            evidence.labels(large),
            score=decades(steps[large[0]]),
            update_ratio=steps[large[0]],
            layer=evidence.description("updates", "largest_ratio_layer")[large[0]],
            num_blocks=len(large),
            rate_growth=evidence.rate_growth,
            title="Steps as large as the weights at the schedule's largest learning rate",
            remedy="A schedule that ends its warm-up at a lower learning rate.",
        )


LARGE_UPDATE = Rule(
    code="large-update",
    stage=CausalStage.UPDATES,
    cause="learning-rate",
    title="Steps as large as the weights",
    explanation="One step replaces what the layer has learned; the loss jumps and the layers after it see "
    "another network.",
    source="‖ΔW‖/‖W‖ of one step of this optimizer",
    advice="A lower learning rate, a warm-up, or gradient clipping.",
    reads=(
        "updates.largest_ratio",
        "updates.largest_ratio_layer",
        "normalization.variance_over_epsilon",
        "output",
        "step",
        "rate_growth",
    ),
    thresholds={
        "large_update_warning": Threshold(
            0.3,
            "the same, worth a look",
            "usual steps lie between 1e-4 and 1e-2, Adam's first up to 0.2",
        ),
        "large_update": Threshold(6.5, "‖ΔW‖ / ‖W‖ of one step", NINE_IN_TEN),
        "large_update_at_peak": Threshold(
            2.0,
            "‖ΔW‖ / ‖W‖ of a step at the schedule's largest rate, by the step that was measured",
            "after a warm-up to 0.8 a transformer trains as well as at usual rates, to 2.8 it does not",
        ),
        "large_update_normalized": Threshold(
            10.0,
            "the same where a batch norm follows and the step lowers the loss",
            "there only the weights' direction counts, and a long step lengthens them, which shortens "
            "the next (Arora, Li and Lyu 2018, auto rate-tuning)",
        ),
    },
    when=(
        When("updates.largest_ratio", above="large_update_warning"),
        When("rate_growth", above=1.0),
    ),
    find=large_update,
    downstream=("unstable-rate", "overshooting-step", "loss-does-not-fall"),
)


def unstable_rate(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A learning rate far above 2(1 + β)/λmax, with the largest one that is stable."""
    curvature = evidence.about("curvature")
    rate, stable = curvature.number("learning_rate"), curvature.number("stable_rate")
    if rate is None or stable is None:
        return
    times = rate / stable
    if times <= thresholds["unstable_rate"]:
        return
    largest = evidence.column("curvature", "largest")
    known = [i for i, value in enumerate(largest) if value is not None]
    order = sorted(known, key=lambda i: -(largest[i] or 0.0))
    yield UNSTABLE_RATE.finding(
        problem_if(times > thresholds["unstable_rate_severe"]),
        evidence.labels(order[:1]),
        score=decades(times),
        learning_rate=rate,
        stable_rate=stable,
        times=times,
        largest_eigenvalue=curvature.number("largest"),
        remedy=f"Lower the learning rate from {rate:.2g} to {stable:.2g} or less.",
    )


UNSTABLE_RATE = Rule(
    code="unstable-rate",
    stage=CausalStage.UPDATES,
    cause="learning-rate",
    title="A learning rate far above the stability limit",
    explanation="Along the direction of largest curvature each step overshoots and the error grows: the "
    "loss rises until the weights have moved to a flatter region, or for good.",
    source="gradient descent with momentum β on a quadratic is stable up to 2(1 + β)/λmax",
    advice="A learning rate at or below the stability limit, or a warm-up towards this one.",
    reads=("curvature", "curvature.largest"),
    thresholds={
        "unstable_rate": Threshold(
            10.0,
            "learning rate over 2(1 + β)/λmax at initialization",
            "wide networks leave a sharp initialization by themselves up to about six times the "
            "stability limit",
        ),
        "unstable_rate_severe": Threshold(
            100.0,
            "the same, a problem",
            "along that direction a step multiplies the error by 2·100 − 1: the loss by 4·10⁴",
        ),
    },
    find=unstable_rate,
    downstream=("large-update", "overshooting-step", "loss-does-not-fall"),
    remedies=("stable-learning-rate",),
)


def small_update(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks that have a gradient, but whose step is lost in rounding, the worst first.

    Steps of less than a millionth of the weights in every block, stem and head are a warning, while
    there is a loss to lower. A schedule is judged by its largest steps: a warm-up begins with small ones.
    """
    growth = evidence.rate_growth
    ratios = [None if r is None else r * growth for r in evidence.column("updates", "ratio")]
    gradients = evidence.column("parameter_gradients", "fraction")
    out = [
        i
        for i, r in enumerate(ratios)
        if r is not None and r < thresholds["small_update"] and gradients[i]
    ]
    if out:
        out.sort(key=lambda i: ratios[i] or 0.0)
        yield SMALL_UPDATE.finding(
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(ratios[out[0]] or 0.0, 1e-40)),
            update_ratio=ratios[out[0]],
            gradient_fraction=gradients[out[0]],
            num_blocks=len(out),
        )
        return
    # a head with usual steps, or one at zero that lets no gradient through yet, is meant so
    steps = [r * growth for r in evidence.everywhere.column("updates", "ratio") if r is not None]
    reached = all(gradients[i] for i, r in enumerate(ratios) if r is not None)
    small = bool(steps) and max(steps) < thresholds["small_update_warning"]
    if small and reached and _is_far_from_met(evidence):
        yield SMALL_UPDATE.finding(
            Severity.WARNING,
            evidence.labels(range(len(evidence.blocks))),
            score=decades(max(steps)),
            update_ratio=max(steps),
            num_blocks=len(steps),
            title="Steps of less than a millionth of the weights in every block",
            why="At this pace the weights take a million steps to change by their own size: the loss "
            "will seem to stand still.",
            source="‖ΔW‖/‖W‖; usual steps lie between 1e-4 and 1e-2",
            remedy="A higher learning rate.",
        )


def small_updates_of_a_loop(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Steps that cannot have moved the weights far, all together, in a training whose loss hardly fell."""
    for use in record.optimizers:
        rows = record.optimizer_rows(use.index)
        ratios = [
            r for row in rows if (r := row.update_ratio) is not None and isfinite(r) and r > 0
        ]
        losses = [row.loss for row in rows if row.loss is not None]
        if use.steps < thresholds["judged_steps"] or len(ratios) < 8 or len(losses) < 40:
            continue
        far = fmean(ratios) * use.steps
        first, last = fmean(losses[:5]), fmean(losses[-20:])
        fell = 1 - last / first if first > 0 else 1.0
        if far < thresholds["whole_way"] and fell < thresholds["loss_fell"]:
            yield SMALL_UPDATE.finding(
                Severity.WARNING, score=decades(thresholds["whole_way"] / far),
                relative_update=fmean(ratios), steps=use.steps, at_most=far, loss_fell=fell,
                learning_rate=use.highest_lr, at=use.stepped_at,
                title=f"All {use.steps} steps of {use.kind} together can have changed the weights by "
                f"{far:.1%}, and the loss fell by {max(0.0, fell):.0%}: steps are too small",
            )  # fmt: skip


SMALL_UPDATE = Rule(
    code="small-update",
    stage=CausalStage.UPDATES,
    cause="learning-rate",
    title="Steps too small to change the weights",
    explanation="The step is lost in the rounding of the weight it is added to: the layer does not learn.",
    source="‖ΔW‖/‖W‖ below the dtype's ε",
    advice="A higher learning rate for these parameters, or weights kept in a longer format.",
    reads=("updates.ratio", "parameter_gradients.fraction", "output", "rate_growth"),
    thresholds={
        "small_update": Threshold(1e-07, "‖ΔW‖ / ‖W‖ of one step", ROUNDING),
        "small_update_warning": Threshold(
            1e-06,
            "the same in every block, worth a look",
            "a hundredth of the smallest usual step, 1e-4",
        ),
        "judged_steps": Threshold(100.0, "steps of a loop", "fewer are a test of it"),
        "whole_way": Threshold(
            0.2,
            "sum of ‖ΔW‖ / ‖W‖ over the steps of a loop",
            "usual steps lie between 1e-4 and 1e-2: a training of some hundred goes farther",
        ),
        "loss_fell": Threshold(
            0.2, "fraction of the first loss", "a training that works falls farther"
        ),
    },
    when=(
        When("updates.ratio", below="small_update"),
        When("updates.ratio", below="small_update_warning"),
    ),
    find=small_update,
    find_in_loop=small_updates_of_a_loop,
    downstream=("small-budget", "loss-does-not-fall"),
    reads_gradients=True,
    event=Transition(
        title="the steps became too small to change the weights",
        advice="Look for a learning rate that fell to zero, or a schedule that ended.",
    ),
)


def _is_far_from_met(evidence: Evidence) -> bool:
    """Whether a tenth or more of the way from the constant baseline to the smallest loss is left."""
    facts = evidence.about("output")
    loss, constant = facts.number("loss"), facts.number("best_constant")
    minimum = facts.number("smallest_loss") or 0.0
    return loss is not None and loss - minimum > 0.1 * ((constant or 0.0) - minimum)


def _limits(evidence: Evidence, thresholds: Thresholds) -> list[float]:
    """The step of each block from which on it is a problem."""
    before = evidence.about("output").number("loss")
    after = evidence.about("step").number("loss_after")
    lowers = before is not None and after is not None and after < before
    norms = evidence.column("normalization", "variance_over_epsilon")
    usual, normalized = thresholds["large_update"], thresholds["large_update_normalized"]
    return [usual if norm is None or not lowers else max(usual, normalized) for norm in norms]
