"""Loaders that give nothing, and evaluations that are fed something else than the training."""

from collections.abc import Iterator

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds


def empty_loader(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Loaders that were read and gave no batch."""
    for loader in record.loaders:
        if not loader.iterations or loader.batches:
            continue
        size, number = loader.batch_size, loader.num_samples
        is_short = size is not None and number is not None and 0 < number < size
        why = (
            f": drop_last leaves out its only batch, {number} samples of {size}" if is_short else ""
        )
        yield EMPTY_LOADER.finding(
            Severity.PROBLEM, score=float(loader.iterations),
            passes=loader.iterations, samples=number, batch_size=size, at=loader.iterated_at,
            title=f"The loader made at {loader.created_at} gave no batch in {loader.iterations} passes{why}",
        )  # fmt: skip


EMPTY_LOADER = Rule(
    code="empty-loader",
    stage=CausalStage.LOOP,
    cause="batch",
    title="A loader without a batch",
    explanation="The body of the loop over it never runs.",
    source="the batches that a loader has handed out",
    advice="Use a smaller batch or drop_last=False; look whether the data set is empty.",
    find_in_loop=empty_loader,
)


def other_inputs_in_evaluation(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Inputs of evaluations that are of another size than those of the training."""
    data = record.data
    if not data.size or not data.evaluated_size:
        return
    factor = data.evaluated_size / data.size
    if max(factor, 1 / factor) < thresholds["evaluated_size"]:
        return
    yield OTHER_INPUTS_IN_EVALUATION.finding(
        Severity.WARNING, score=max(factor, 1 / factor),
        in_training=data.size, in_evaluation=data.evaluated_size, passes=data.evaluated,
        title=f"Inputs have a size of {data.evaluated_size:.3g} in evaluation, and of {data.size:.3g} in "
        "training",
    )  # fmt: skip


OTHER_INPUTS_IN_EVALUATION = Rule(
    code="other-inputs-in-evaluation",
    stage=CausalStage.LOOP,
    cause="input",
    title="Evaluation on inputs of another size",
    explanation="The network is judged on inputs that it was not trained on: often one of the two is "
    "normalized and the other is not.",
    source="root mean square of inputs of the same shape, with gradients and without them in eval mode",
    advice="Put the same normalization into both pipelines, with the numbers of the training set.",
    thresholds={
        "evaluated_size": Threshold(
            4.0,
            "size of the inputs in evaluation over that in training, or the reverse",
            "standardized against [0, 1] is about two, against bytes a hundred",
        )
    },
    find_in_loop=other_inputs_in_evaluation,
)
