"""Where NaN or Inf comes in: first in the forward pass, else last in the backward pass."""

import math
from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import CausalStage, Rule, Thresholds, Transition


def non_finite(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The first block whose weights or output are non-finite; else the last whose gradient is not.

    Stem and head are looked at too.
    """
    evidence = evidence.everywhere
    weights = evidence.column("weights", "non_finite")
    outputs = evidence.column("activations", "non_finite")
    for i in range(len(evidence.blocks)):
        if weights[i] or outputs[i]:
            yield NON_FINITE.finding(
                Severity.PROBLEM,
                evidence.labels([i]),
                score=100.0,
                where="weights" if weights[i] else "output",
                fraction_of_weights=weights[i],
                fraction_of_output=outputs[i],
                blocks_after=sum(bool(o) for o in outputs[i + 1 :]),
            )
            return
    gradients = evidence.column("gradients", "non_finite")
    at_output = evidence.column("gradients", "norm_out")
    bad = [i for i, fraction in enumerate(gradients) if fraction]
    if bad:
        last = bad[-1]
        # non-finite already at its output: it came in between this block and the next
        outside = last + 1 < len(evidence.blocks) and not _is_finite(at_output[last])
        yield NON_FINITE.finding(
            Severity.PROBLEM,
            evidence.labels([last, last + 1] if outside else [last]),
            score=90.0,
            where="gradient",
            fraction_of_gradient=gradients[last],
            blocks_before=len(bad) - 1,
        )
        return
    yield from _after_the_step(evidence)


def _after_the_step(evidence: Evidence) -> Iterator[Finding]:
    """Blocks whose weights the optimizer's next step makes non-finite, from gradients that are finite."""
    updates = evidence.column("updates", "non_finite")
    spoiled = [i for i, fraction in enumerate(updates) if fraction]
    if spoiled:
        yield NON_FINITE.finding(
            Severity.PROBLEM,
            evidence.labels(spoiled),
            score=80.0,
            cause="optimizer",
            where="update",
            fraction_of_weights=max(updates[i] or 0.0 for i in spoiled),
            num_blocks=len(spoiled),
            title="The optimizer's next step makes weights NaN or Inf",
            remedy="Keep the weights in float32 and compute under autocast; or raise eps to 1e-4 in "
            "float16, where Adam's 1e-8 is zero.",
        )


NON_FINITE = Rule(
    code="non-finite",
    stage=CausalStage.NON_FINITE,
    cause="precision",
    title="Non-finite values (NaN or Inf)",
    explanation="One NaN or Inf spreads to everything computed from it, and the first step of an optimizer "
    "writes it into every weight.",
    source="IEEE 754 arithmetic",
    advice="Look at the named block: a division by zero, the root or logarithm of zero, an overflow "
    "in a short format. Re-initialize the block if its weights are already non-finite.",
    reads=(
        "weights.non_finite",
        "activations.non_finite",
        "gradients.non_finite",
        "gradients.norm_out",
        "updates.non_finite",
    ),
    when=(
        "weights.non_finite",
        "activations.non_finite",
        "gradients.non_finite",
        "updates.non_finite",
    ),
    find=non_finite,
    downstream=(
        *("non-finite-loss", "dead-units", "collapsed-representation", "singular-representation"),
        *("constant-output", "poor-start", "overshooting-step", "precision-loss"),
        "loss-does-not-fall",
    ),
    upstream=(
        *("cut-gradient", "vanishing-gradient", "exploding-gradient", "not-norm-preserving"),
        *("large-update", "small-update", "zero-gradient"),
    ),
    event=Transition(
        title="a value became NaN or Inf",
        # the gradient of a large tensor is read at one step of four: its NaN may show in the next loss
        advice="Go back to a checkpoint from two steps before this one or earlier; look at the named block "
        "for a division by zero, a logarithm or root of zero, or an overflow in a short format; clip "
        "gradients, or lower the learning rate.",
    ),
    remedies=("reinitialize-blocks",),
)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
