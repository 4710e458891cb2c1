"""What is wrong with a training loop: its rules applied to its record."""

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding
from bathyscope.rules.findings import apply_loop_rules, in_order
from bathyscope.rules.rule import Thresholds


def loop_findings(record: LoopRecord, thresholds: Thresholds | None = None) -> tuple[Finding, ...]:
    """The findings in the record of a loop, severest first and causes before their effects."""
    return in_order(tuple(apply_loop_rules(record, thresholds or Thresholds.of())))


def not_checked(record: LoopRecord) -> tuple[str, ...]:
    """What could not be checked, in one sentence each."""
    notes = list(record.notes)
    trained = [model for model in record.models if model.is_trained]
    if not record.optimizers or not record.steps:
        if record.backward_passes:
            notes.append(
                "No optimizer of torch.optim took a step: weights that a rule of your own updates "
                "are not seen."
            )
        else:
            notes.append(
                "No backward pass and no step of an optimizer was seen: nothing was trained."
            )
        return tuple(notes)
    if record.steps < 4:
        taken = "step was" if record.steps == 1 else "steps were"
        notes.append(f"Only {record.steps} {taken} taken: habits of a loop show from 4 on.")
    if not trained:
        notes.append(
            "No module holds the parameters of the optimizer: modes and inputs are not seen."
        )
    elif not any(model.calls for model in trained):
        notes.append(
            "No model was called as model(x): modes and inputs of passes by model.forward(x) or inside "
            "of a compiled function are not seen."
        )
    if record.data.label_batches == 0:
        notes.append(
            "Classes in a batch: they are read from the logits that a model gives to a cross-entropy; here "
            "the model computes its loss itself, or the loss is of another kind."
        )
    if not record.loaders:
        notes.append("Loaders: no torch DataLoader was made.")
    return tuple(notes)
