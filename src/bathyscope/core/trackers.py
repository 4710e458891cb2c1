"""Trackers of experiments: TensorBoard, MLflow, Weights & Biases, or one's own, behind one protocol."""

from typing import Any, Protocol, runtime_checkable

from bathyscope.core.errors import UsageError

_LONGEST_TAG = 5000  # characters of a tag that every store of MLflow takes


@runtime_checkable
class Tracker(Protocol):
    """Anything that takes numbers under a name at a step."""

    def log_number(self, name: str, value: float, step: int) -> None:
        """One number."""


@runtime_checkable
class TextTracker(Protocol):
    """A tracker that takes sentences, too: what was found, and what helps."""

    def log_text(self, name: str, text: str, step: int) -> None:
        """One sentence."""


def tracker_of(given: object) -> Tracker | None:
    """The tracker for a TensorBoard `SummaryWriter`, an MLflow module or client, or a wandb run.

    Raises:
        UsageError: it is none of these and has no `log_number(name, value, step)`.
    """
    if given is None or isinstance(given, Tracker):
        return given
    for method, form in (
        ("add_scalar", _TensorBoard),
        ("log_metric", _MLflow),
        ("log", _WandB),
    ):
        if callable(getattr(given, method, None)):
            return form(given)
    raise UsageError(
        f"A tracker is a TensorBoard SummaryWriter, mlflow, a wandb run, or an object with "
        f"log_number(name, value, step), but a {type(given).__name__} was given."
    )


class _TensorBoard:
    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def log_number(self, name: str, value: float, step: int) -> None:
        self.writer.add_scalar(name, value, step)

    def log_text(self, name: str, text: str, step: int) -> None:
        self.writer.add_text(name, text, step)


class _MLflow:
    def __init__(self, client: Any) -> None:
        self.client = client

    def log_number(self, name: str, value: float, step: int) -> None:
        self.client.log_metric(name, value, step=step)

    def log_text(self, name: str, text: str, step: int) -> None:
        self.client.set_tag(name, text[:_LONGEST_TAG])


class _WandB:
    def __init__(self, run: Any) -> None:
        self.run = run

    def log_number(self, name: str, value: float, step: int) -> None:
        # its own counter of steps must not go back, so ours travels as a number beside
        self.run.log({name: value, "bathyscope/step": step})

    def log_text(self, name: str, text: str, step: int) -> None:
        self.run.summary[f"{name}/text"] = text
