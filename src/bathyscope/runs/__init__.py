"""The run store: one folder a run, written so that nothing finished is ever lost."""

from bathyscope.runs.checkpoints import (
    Checkpoint,
    keep_weights,
    load_checkpoint,
    save_checkpoint,
    stored_weights,
)
from bathyscope.runs.configuration import Configuration, read_toml
from bathyscope.runs.folder import (
    Run,
    RunState,
    has_result,
    is_run,
    open_run,
    read_run,
    record_failure,
    run_state,
)
from bathyscope.runs.manifest import ENDED, Manifest, Status
from bathyscope.runs.metrics import MetricsWriter, read_metrics
from bathyscope.runs.table import curves, run_folders, table, write_table

__all__ = [
    "ENDED",
    "Checkpoint",
    "Configuration",
    "Manifest",
    "MetricsWriter",
    "Run",
    "RunState",
    "Status",
    "curves",
    "has_result",
    "is_run",
    "keep_weights",
    "load_checkpoint",
    "open_run",
    "read_metrics",
    "read_run",
    "read_toml",
    "record_failure",
    "run_folders",
    "run_state",
    "save_checkpoint",
    "stored_weights",
    "table",
    "write_table",
]
