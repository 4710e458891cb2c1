"""The log of a watched training: samples, steps and events, each a file of JSON lines."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bathyscope.core.arguments import check_path
from bathyscope.core.errors import UsageError
from bathyscope.core.files import make_folder, write_atomic
from bathyscope.recorder.event import Event
from bathyscope.recorder.history import Signal
from bathyscope.recorder.samples import Row
from bathyscope.runs import MetricsWriter, read_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

SAMPLES, STEPS, EVENTS = "watch.jsonl", "steps.jsonl", "events.jsonl"
WEIGHTS = "weights.json"


@dataclass(frozen=True, slots=True)
class LastWeights:
    """The norm of every group's weights after the last step of a log at which they were written."""

    step: int
    norms: Mapping[str, float]


class Log:
    """Writes to a folder. Events go to the disk at once, the rest with the next sample or event."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.folder = folder
        self._writers = {name: MetricsWriter(folder / name) for name in (SAMPLES, STEPS, EVENTS)}

    def step(self, signal: Signal) -> None:
        """The scalars of one step."""
        numbers = {
            "step": signal.step,
            "loss": signal.loss,
            "gradient_norm": signal.gradient,
            "rate": signal.rate,
        }
        self._writers[STEPS].append(numbers)

    def sample(self, rows: "Iterable[Row]") -> None:
        """One sample, a line for each block."""
        for row in rows:
            self._writers[SAMPLES].append(row)

    def weights(self, last: LastWeights) -> None:
        """What a training that resumes from here will be compared with."""
        norms = {label: norm for label, norm in last.norms.items() if math.isfinite(norm)}
        record = json.dumps({"step": last.step, "norms": norms})
        write_atomic(self.folder / WEIGHTS, record.encode())

    def event(self, event: Event) -> None:
        """One event, with everything before it, on the disk when this returns."""
        self._writers[EVENTS].append(event.to_json())
        self.flush(sync=True)

    def forget(self) -> None:
        """Let go of what is pending."""
        for writer in self._writers.values():
            writer.forget()

    def flush(self, *, sync: bool = False) -> None:
        """Write what is pending."""
        for writer in self._writers.values():
            writer.flush(sync=sync)

    def close(self) -> None:
        """Let the files go; what is pending is not written."""
        for writer in self._writers.values():
            writer.abandon()


def read_events(folder: Path | str) -> list[Event]:
    """The events of a log, in order; lines that are not events are passed over.

    Raises:
        UsageError: the folder holds no log.
    """
    folder = check_path("folder", folder)
    if not is_log(folder):
        raise UsageError(
            f"{folder} holds no log of `bathyscope.watch`: none of {SAMPLES}, {STEPS} and {EVENTS} "
            "is there; give the folder that was passed as log=."
        )
    result = (Event.from_json(record) for record in read_metrics(folder / EVENTS))
    return [event for event in result if event is not None]


def last_weights(folder: Path) -> LastWeights | None:
    """The weights at the end of a log; None where there is none, or where it cannot be read."""
    try:
        record = json.loads((folder / WEIGHTS).read_bytes())
        norms = {str(label): float(norm) for label, norm in record["norms"].items()}
        return LastWeights(int(record["step"]), norms)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def is_log(folder: Path | str) -> bool:
    """Whether a folder holds a log, or a part of one."""
    return any((Path(folder) / name).is_file() for name in (SAMPLES, STEPS, EVENTS))
