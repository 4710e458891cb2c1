"""The lines of the metrics, in one place for every way of training."""

from dataclasses import dataclass

from bathyscope.core.json_values import JsonObject


def step_record(
    step: int,
    epoch: int,
    *,
    loss: float,
    gradient_norm: float,
    lr: float,
    accuracy: float | None = None,
) -> dict[str, object]:
    """One optimizer step; `step` counts from 1. Accuracy is absent where targets are not labels."""
    record: JsonObject = {
        "kind": "step",
        "step": step,
        "epoch": epoch,
        "loss": loss,
        "gradient_norm": gradient_norm,
        "lr": lr,
    }
    if accuracy is not None:
        record["accuracy"] = accuracy
    return record


@dataclass
class EpochSums:
    """Sums over the samples of an epoch so far."""

    loss: float = 0.0
    correct: float = 0
    seen: int = 0
    labeled: bool = True

    def add(self, loss: float, correct: float | None, *, num_samples: int) -> None:
        """Take in one batch: its mean loss and its right answers."""
        self.loss += loss * num_samples
        self.seen += num_samples
        if correct is None:
            self.labeled = False
        else:
            self.correct += correct

    def record(self, step: int, epoch: int, *, test: dict[str, float] | None) -> JsonObject:
        """The epoch: averages over its steps, the evaluation, and the gap between the two.

        generalization_gap = test loss − training loss; accuracy_gap = training − test accuracy. The
        training side is the running average over the epoch, in train mode.
        """
        record: JsonObject = {"kind": "epoch", "step": step, "epoch": epoch}
        count = max(1, self.seen)
        record["train_loss"] = self.loss / count
        if self.labeled:
            record["train_accuracy"] = self.correct / count
        if test is not None:
            record |= {f"test_{name}": value for name, value in test.items()}
            record["generalization_gap"] = record["test_loss"] - record["train_loss"]
            if self.labeled and "accuracy" in test:
                record["accuracy_gap"] = record["train_accuracy"] - record["test_accuracy"]
        return record
