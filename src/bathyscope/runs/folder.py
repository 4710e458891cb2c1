"""The folder of one run."""

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bathyscope.core.arguments import check_path
from bathyscope.core.errors import UsageError
from bathyscope.core.files import hold_lock, is_locked, make_folder, read_json, write_atomic
from bathyscope.core.json_values import JsonMapping, name_non_finite
from bathyscope.runs.checkpoints import CHECKPOINTS, WEIGHTS
from bathyscope.runs.configuration import Configuration
from bathyscope.runs.manifest import ENDED, Manifest, Status, new_manifest, now
from bathyscope.runs.metrics import MetricsWriter, read_metrics

CONFIGURATION = "configuration.json"
MANIFEST = "manifest.json"
METRICS = "metrics.jsonl"
FAILURE = "failure.txt"
_LOCK = "lock"

RunState = Literal["absent", "interrupted", "running", "finished", "diverged", "stopped", "failed"]
"""How a run stands, seen from outside."""


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run."""
    try:
        return (folder / CONFIGURATION).is_file()
    except OSError:  # a name that is too long, a loop of links
        return False


def check_run(folder: Path) -> Path:
    """The folder, if it holds a run.

    Raises:
        UsageError: it does not.
    """
    if is_run(folder):
        return folder
    reason = f"it holds no {CONFIGURATION}" if folder.is_dir() else "there is no such folder"
    raise UsageError(f"{folder} is not a run: {reason}; give a folder that a run was written to.")


def run_state(folder: Path) -> RunState:
    """How the run stands: absent where the folder holds none, interrupted where its process died."""
    if not is_run(folder):
        return "absent"
    if not (folder / MANIFEST).is_file():
        return "running" if is_locked(folder / _LOCK) else "interrupted"
    status = Manifest.read(folder / MANIFEST).status
    if status == "running" and not is_locked(folder / _LOCK):
        return "interrupted"
    return status


def has_result(folder: Path) -> bool:
    """Whether the run reached its end, finished or diverged, and need not run again."""
    return run_state(folder) in ENDED


@dataclass
class Run:
    """A run that this process is writing: made by `open_run`, which holds its lock.

    Attributes:
        folder: where it lives.
        manifest: as written to disk by `save`.
        metrics: the writer of its metrics.
    """

    folder: Path
    manifest: Manifest
    metrics: MetricsWriter
    _since: float = field(default_factory=time.monotonic)
    _cpu_since: float = field(default_factory=time.process_time)

    def log(self, record: JsonMapping) -> None:
        """Append one record to the metrics; it reaches the disk at the next flush or at the end."""
        self.metrics.append(record)

    def cut_metrics(self, position: int) -> None:
        """Drop the metrics behind this position: they belong to steps that will be taken again."""
        self.metrics.abandon()
        self.metrics = MetricsWriter(self.metrics.path, position=position)
        self.note(self.metrics.note)

    def note(self, text: str) -> None:
        """Add a sentence that a reader of the result must know; nothing for an empty one."""
        if text and text not in self.manifest.notes:
            self.manifest.notes.append(text)

    def end(
        self, status: Status, ending: str = "", *, result: Mapping[str, object] | None = None
    ) -> None:
        """Record how it ended: metrics first, then the manifest, which makes it final."""
        self.metrics.flush(sync=True)
        self.manifest.status = status
        self.manifest.ending = ending or status
        self.manifest.result = name_non_finite(result or {})
        self.manifest.ended = now()
        self.save()

    def save(self) -> None:
        """Write the manifest with the time spent until now."""
        moment, cpu = time.monotonic(), time.process_time()
        self.manifest.seconds += moment - self._since
        self.manifest.cpu_seconds += cpu - self._cpu_since
        self._since, self._cpu_since = moment, cpu
        self.manifest.write(self.folder / MANIFEST)


@contextmanager
def open_run(
    folder: Path,
    configuration: Configuration,
    *,
    seeds: tuple[int, ...] = (),
    restart: bool = False,
) -> Iterator[Run]:
    """Open a run for writing, new or begun before, and hold its lock.

    Metrics of an earlier start stay; `run.cut_metrics` cuts them back to where a checkpoint stands.

    Args:
        folder: the run's folder; it is made.
        configuration: written beside the results. A begun run must have the same.
        seeds: for the manifest.
        restart: throw away what an earlier start left.

    Raises:
        Locked: another process writes it.
        UsageError: the folder holds a run of another configuration, or things that are not runs, or
            cannot be written.
    """
    _refuse_foreign(folder)
    make_folder(folder)
    with hold_lock(folder / _LOCK):
        for remains in folder.glob(".*.tmp"):  # of a writer that was killed: the lock is ours
            remains.unlink(missing_ok=True)
        if restart:
            _empty(folder)
        _write_configuration(folder, configuration)
        (folder / FAILURE).unlink(missing_ok=True)
        known = (folder / MANIFEST).is_file()
        manifest = Manifest.read(folder / MANIFEST) if known else new_manifest(seeds=seeds)
        manifest.status, manifest.ending, manifest.ended = "running", "running", ""
        manifest.starts += 1
        run = Run(folder, manifest, MetricsWriter(folder / METRICS))
        run.note(run.metrics.note)
        try:
            run.save()
            yield run
            run.metrics.flush()
        finally:
            run.metrics.abandon()


def record_failure(folder: Path, configuration: Configuration, traceback: str) -> None:
    """Record that a run failed, with its traceback in `failure.txt`.

    Raises:
        Locked: another process writes it.
    """
    with open_run(folder, configuration) as run:
        write_atomic(folder / FAILURE, traceback.encode())
        last = traceback.strip().splitlines()[-1] if traceback.strip() else "unknown"
        run.end("failed", f"failed: {last}")


def read_run(folder: Path | str) -> tuple[dict[str, object], Manifest, list[dict[str, object]]]:
    """Configuration, manifest and metrics of a run.

    Raises:
        UsageError: the folder is not a run.
    """
    folder = check_run(check_path("folder", folder))
    configuration = _read_configuration(folder)
    known = (folder / MANIFEST).is_file()
    manifest = Manifest.read(folder / MANIFEST) if known else Manifest()
    return configuration, manifest, read_metrics(folder / METRICS)


def _refuse_foreign(folder: Path) -> None:
    """A folder that holds other things is not written to."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a folder; give another place for the run.")
    if folder.is_dir() and not is_run(folder):
        names = {p.name for p in folder.iterdir() if not p.name.startswith(".")} - {_LOCK}
        if names:
            raise UsageError(
                f"{folder} is not a run and not empty (it holds {sorted(names)[0]}); "
                "give another place for the run."
            )


def _write_configuration(folder: Path, configuration: Configuration) -> None:
    path = folder / CONFIGURATION
    resolved = configuration.resolved()
    if path.exists():
        result = _read_configuration(folder)
        if result != resolved:
            keys = sorted(k for k in {*result, *resolved} if result.get(k) != resolved.get(k))
            raise UsageError(
                f"{folder} holds a run of another configuration (it differs in {', '.join(keys)}); "
                "give another folder."
            )
        return
    write_atomic(path, json.dumps(resolved, indent=1).encode() + b"\n")


def _read_configuration(folder: Path) -> dict[str, object]:
    path = folder / CONFIGURATION
    result = read_json(path, what="run's configuration")
    if not isinstance(result, dict):
        raise UsageError(
            f"{path} is not a run's configuration: it holds a {type(result).__name__} and not a table "
            "of settings; restore the file, or restart the run."
        )
    return result


def _empty(folder: Path) -> None:
    """Remove what a run wrote, the configuration last, so that a crash leaves a run behind."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    for name in (MANIFEST, METRICS, FAILURE, WEIGHTS, CONFIGURATION):
        (folder / name).unlink(missing_ok=True)
