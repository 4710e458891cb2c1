"""Dropout and norms in a mode in which a network does not learn."""

from collections.abc import Iterator

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import (
    OF_FLAT_OUTPUT,
    OF_WRONG_SCALE,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    problem_if,
)


def eval_mode(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A network with dropout or batch norms in eval mode, beside the optimizer meant to train it."""
    facts = evidence.about("mode")
    modal, resting = facts.number("modal") or 0, facts.number("resting") or 0
    if modal and resting == modal:
        meant = "updates" not in evidence.measurements
        yield EVAL_MODE.finding(
            Severity.NOTE if meant else Severity.WARNING,
            score=resting,
            modules_in_eval_mode=resting,
        )


def eval_mode_in_loop(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Steps whose passes all ran in eval mode, of models with layers that behave otherwise there."""
    models = [m for m in record.models if m.is_trained and m.mode_layers and m.eval_passes]
    steps = sum(use.steps for use in record.optimizers)
    in_eval = sum(use.eval_steps for use in record.optimizers)
    if not models or in_eval < thresholds["eval_steps"] or in_eval < 0.25 * steps:
        return
    model = max(models, key=lambda m: m.eval_passes)
    # a spectral norm that has never seen train mode divides by a random number
    severe = model.train_passes > 0 or "spectral norm" in model.mode_layers
    since = f" since eval() at {model.eval_at}" if model.eval_at else ""
    yield EVAL_MODE.finding(
        problem_if(severe), score=in_eval / steps,
        steps_in_eval_mode=in_eval, of=steps, layers=", ".join(model.mode_layers), at=model.eval_at,
        title=f"{in_eval} of {steps} steps were taken in eval mode{since}",
    )  # fmt: skip


EVAL_MODE = Rule(
    code="eval-mode",
    stage=CausalStage.MODE,
    cause="mode",
    title="Training in eval mode",
    explanation="Dropout is off and batch norms use statistics that are never updated.",
    source="nn.Module.eval",
    advice="Call model.train() before training.",
    when=("mode.resting",),
    find=eval_mode,
    find_in_loop=eval_mode_in_loop,
    thresholds={
        "eval_steps": Threshold(
            4.0, "steps of a loop in eval mode", "as many as before any loop is judged"
        )
    },
)


def heavy_dropout(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The largest probability of a dropout that is on."""
    dropped = evidence.about("mode").number("dropped") or 0.0
    if dropped >= thresholds["dropout"]:
        yield HEAVY_DROPOUT.finding(
            problem_if(dropped >= thresholds["dropout_severe"]), score=dropped, probability=dropped
        )


HEAVY_DROPOUT = Rule(
    code="heavy-dropout",
    stage=CausalStage.MODE,
    cause="mode",
    title="A dropout that drops nearly everything",
    explanation="The kept units are scaled up by 1/(1 − p): noise dominates the signal.",
    source="the variance of a kept unit is p/(1 − p) of its square",
    advice="Lower the probability: 0.1 to 0.5 is usual (Keras's and torch's p is what is dropped).",
    thresholds={
        "dropout": Threshold(0.75, "probability of a dropout", "0.1 to 0.5 are usual"),
        "dropout_severe": Threshold(
            0.9, "the same, a problem", "noise p/(1 − p) = 9 times the square of the signal"
        ),
    },
    when=("mode.dropped",),
    find=heavy_dropout,
    effects=OF_WRONG_SCALE,
)


def norm_of_one_value(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Norms whose groups hold one value."""
    number = evidence.about("mode").number("lone_norms") or 0
    yield NORM_OF_ONE_VALUE.finding(Severity.PROBLEM, score=number, norms_called=number)


NORM_OF_ONE_VALUE = Rule(
    code="norm-of-one-value",
    stage=CausalStage.MODE,
    cause="mode",
    title="A normalization over a single value",
    explanation="A value minus its own mean is zero: the layer outputs its bias whatever comes in.",
    source="(x − x)/√(0 + ε) = 0",
    advice="Normalize over more values: fewer groups, a larger feature map, or another normalization.",
    when=("mode.lone_norms",),
    find=norm_of_one_value,
    effects=(*OF_FLAT_OUTPUT, "dead-units", "singular-representation"),
)
