"""How a loop treats its models: randomness in eval mode, copies, wrappers."""

from collections.abc import Iterator

from bathyscope.core.loop_record import LoopRecord, ModelUse
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, problem_if

_FEWEST = 32
"""Steps after which a copy that has not moved shows."""
_AVERAGES_GRADIENTS = ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel")


def dropout_in_eval(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Dropout, or other randomness, in passes in eval mode."""
    for model in record.models:
        if model.dropout_in_eval is not None:
            yield DROPOUT_IN_EVAL.finding(
                Severity.WARNING, score=1.0,
                function=model.dropout_in_eval, passes=model.random_in_eval, at=model.dropout_at,
                title=f"{model.dropout_in_eval} at {model.dropout_at} drops values in eval mode too",
            )  # fmt: skip


DROPOUT_IN_EVAL = Rule(
    code="dropout-in-eval",
    stage=CausalStage.LOOP,
    cause="mode",
    title="Dropout that is on in eval mode",
    explanation="Predictions are random: validation is worse than the network is, and never the same.",
    source="functional dropout knows no mode",
    advice="Pass training=self.training, or dropout_p=self.p if self.training else 0.0.",
    find_in_loop=dropout_in_eval,
    effects=("random-in-eval",),
)


def validation_in_train_mode(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Passes without gradients, now and then, of a model that is in train mode and never in eval mode."""
    if sum(use.steps > 0 for use in record.optimizers) != 1:
        return  # networks that train against each other pass samples on without gradients
    for model in record.models:
        passes = model.blind_train_passes
        if not model.is_trained or model.wrapper or not model.mode_layers:
            continue
        # at every step it is a part of the training, as pseudo-labels are
        if 2 <= passes < 0.5 * record.steps and not model.blind_eval_passes:
            yield VALIDATION_IN_TRAIN_MODE.finding(
                Severity.WARNING, score=float(passes),
                passes=passes, layers=", ".join(model.mode_layers),
                title=f"{passes} passes of {model.kind} without gradients ran in train mode, and none in "
                f"eval mode, though it has {', '.join(model.mode_layers)}",
            )  # fmt: skip


VALIDATION_IN_TRAIN_MODE = Rule(
    code="validation-in-train-mode",
    stage=CausalStage.LOOP,
    cause="mode",
    title="A validation in train mode",
    explanation="Dropout is on, and batch norms learn the statistics of the validation data: what is "
    "measured is another network than the one that is saved.",
    source="the mode of the model at passes without gradients",
    advice="Call model.eval() before the validation and model.train() after it.",
    find_in_loop=validation_in_train_mode,
)


def frozen_statistics(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Batch norms that train and whose running statistics cannot move."""
    for model in record.models:
        if model.lags_in and model.blind_eval_passes:
            yield FROZEN_STATISTICS.finding(
                Severity.WARNING,
                model.lags_in,
                score=float(len(model.lags_in)),
                at=model.called_at,
                title=f"The average of {model.kind} that is asked at {model.called_at} has the running "
                "statistics of the start",
                why="Its weights follow the trained model, and its buffers do not: in eval mode its batch "
                "norms use mean 0 and variance 1.",
                remedy="Copy the buffers as well (AveragedModel does, or use_buffers=True), or fill them by "
                "torch.optim.swa_utils.update_bn.",
            )
        if model.train_passes and model.frozen_statistics:
            yield FROZEN_STATISTICS.finding(
                Severity.WARNING, model.frozen_statistics, score=float(len(model.frozen_statistics))
            )


FROZEN_STATISTICS = Rule(
    code="frozen-statistics",
    stage=CausalStage.LOOP,
    cause="mode",
    title="Running statistics that never move",
    explanation="In eval mode the norm uses mean 0 and variance 1, whatever the data are.",
    source="running ← (1 − momentum) · running + momentum · batch",
    advice="Use a momentum above 0 (torch's momentum is 1 minus that of other frameworks).",
    find_in_loop=frozen_statistics,
)


def copy_never_moves(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A copy of a trained model that is asked at every step, and is loaded without effect or never."""
    trained_moves = any(m.is_trained and m.has_moved for m in record.models)
    for model in record.models:
        if model.is_trained or model.wrapper or not trained_moves:
            continue
        yield from _random_copy(record, model, thresholds)
        if model.loads < 2:
            continue
        if model.self_loads >= 2 or model.loads_without_effect == model.loads:
            source = "its own weights" if model.self_loads >= 2 else "weights that it has already"
            yield COPY_NEVER_MOVES.finding(
                Severity.PROBLEM, score=float(model.loads),
                loads=model.loads, without_effect=model.loads_without_effect,
                from_itself=model.self_loads, at=model.loaded_at,
                title=f"load_state_dict at {model.loaded_at} gives the copy of {model.kind} {source}: "
                "it never moves",
            )  # fmt: skip


def _random_copy(record: LoopRecord, model: ModelUse, thresholds: Thresholds) -> Iterator[Finding]:
    """A copy that keeps its random initialization; a teacher that was trained once has another."""
    asked = model.blind_train_passes + model.blind_eval_passes
    is_still = model.copy_of is not None and model.is_fresh and not model.has_moved
    if is_still and record.steps >= _FEWEST and asked >= thresholds["asked"] * record.steps:
        yield COPY_NEVER_MOVES.finding(
            Severity.WARNING,
            score=float(asked),
            passes=asked,
            at=model.called_at,
            title=f"The copy of {model.kind} called at {model.called_at} keeps its random "
            f"initialization over {record.steps} steps: nobody loads or averages weights into it",
        )


COPY_NEVER_MOVES = Rule(
    code="copy-never-moves",
    stage=CausalStage.LOOP,
    cause="loop",
    title="A target network that never moves",
    explanation="Its answers stay those of the initialization, and the training chases them.",
    source="the weights of the copy before and after each load_state_dict, and whether they look sampled",
    advice="Load the state dict of the network that is trained now and then: "
    "target.load_state_dict(online.state_dict()).",
    thresholds={
        "asked": Threshold(0.5, "passes of a copy without gradients per step", "every other step")
    },
    find_in_loop=copy_never_moves,
)


def wrapper_bypassed(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Wrappers around a model that is trained without them."""
    for wrapper in record.models:
        if wrapper.wraps is None or wrapper.wrapper == "AveragedModel":
            continue
        inner = record.models[wrapper.wraps]
        direct = inner.train_passes + inner.eval_passes
        if direct < 4 or wrapper.train_passes + wrapper.eval_passes > 0:
            continue
        averages = wrapper.wrapper in _AVERAGES_GRADIENTS
        effect = "gradients are never averaged" if averages else "its compiled code never runs"
        yield WRAPPER_BYPASSED.finding(
            problem_if(averages), score=float(direct),
            cause="ranks" if averages else "loop",
            wrapper=wrapper.wrapper, direct_calls=direct, at=inner.called_at,
            title=f"The call at {inner.called_at} goes around {wrapper.wrapper}: {effect}",
        )  # fmt: skip


WRAPPER_BYPASSED = Rule(
    code="wrapper-bypassed",
    stage=CausalStage.LOOP,
    cause="ranks",
    title="A wrapper that the loop goes around",
    explanation="What the wrapper does at each pass (averaging gradients, compiled code) does not happen.",
    source="a wrapper works when it is called itself",
    advice="Call the wrapper in place of the module inside.",
    find_in_loop=wrapper_bypassed,
    effects=("replicas-differ",),
)


def wrapped_parameters_replaced(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters that a data-parallel wrapper does not know."""
    for model in record.models:
        if model.replaced_parameters:
            yield WRAPPED_PARAMETERS_REPLACED.finding(
                Severity.PROBLEM, score=float(model.replaced_parameters),
                num_parameters=model.replaced_parameters, wrapper=model.wrapper,
                title=f"{model.replaced_parameters} parameters were replaced after {model.wrapper} was "
                "made: their gradients are not averaged",
            )  # fmt: skip


WRAPPED_PARAMETERS_REPLACED = Rule(
    code="wrapped-parameters-replaced",
    stage=CausalStage.LOOP,
    cause="ranks",
    title="Parameters that the wrapper does not know",
    explanation="It averages the gradients of the old ones, and each rank trains on its own data alone.",
    source="a data-parallel wrapper sets its hooks on the parameters it finds when it is made",
    advice="Change the model first (devices, dtypes, adapters, ties) and wrap it afterwards.",
    find_in_loop=wrapped_parameters_replaced,
    effects=("replicas-differ",),
)
