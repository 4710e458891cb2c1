"""Many runs as one tidy table."""

import io
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from bathyscope.core.arguments import check_name, check_path
from bathyscope.core.errors import UsageError
from bathyscope.core.files import write_atomic
from bathyscope.runs.folder import is_run, read_run, run_state


def run_folders(folder: Path | str) -> list[Path]:
    """The runs in a folder, by name; the folder itself where it is a run.

    Raises:
        UsageError: there is none.
    """
    folder = check_path("folder", folder)
    if is_run(folder):
        return [folder]
    result = sorted(p for p in folder.iterdir() if is_run(p)) if folder.is_dir() else []
    if not result:
        what = "holds no run" if folder.is_dir() else "is not a folder"
        raise UsageError(f"{folder} {what}; give a run's folder, or one that holds runs.")
    return result


def table(folder: Path | str) -> pd.DataFrame:
    """One row per run: its name, every key of its configuration, how it stands, its last numbers.

    Keys inside a table of the configuration are joined with dots. A result that bears the name of a
    configuration key gets the suffix `_result`.

    Args:
        folder: a folder of runs, or one run.

    Raises:
        UsageError: there is no run.
    """
    return pd.DataFrame([_row(run) for run in run_folders(folder)])


def curves(folder: Path | str, *, kind: str = "epoch") -> pd.DataFrame:
    """The metrics of all runs below one another: one row per step or epoch, with the run's name.

    Args:
        folder: a folder of runs, or one run.
        kind: `epoch`, `step`, or what a logger of one's own wrote.
    """
    kind = check_name("kind", kind)
    rows = [
        {"run": run.name} | record
        for run in run_folders(folder)
        for record in read_run(run)[2]
        if record.get("kind", kind) == kind
    ]
    return pd.DataFrame(rows)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, by the ending of the file's name.

    Raises:
        UsageError: the ending is another, the file cannot be written, or Parquet is asked for without
            pyarrow.
    """
    contents = io.BytesIO()
    if path.suffix == ".csv":
        frame.to_csv(contents, index=False)
    elif path.suffix == ".parquet":
        try:
            _uniform(frame).to_parquet(contents, index=False)
        except ImportError:
            raise UsageError(
                "Parquet needs pyarrow; install it with: pip install 'bathyscope[parquet]', "
                "or write a .csv file."
            ) from None
    else:
        raise UsageError(f"{path.name} is not a table's name; end it in .csv or .parquet.")
    write_atomic(path, contents.getvalue())


def _row(folder: Path) -> dict[str, object]:
    configuration, manifest, _ = read_run(folder)
    row: dict[str, object] = {"run": folder.name} | _flat(configuration)
    row |= {"status": run_state(folder), "ending": manifest.ending, "seconds": manifest.seconds}
    for name, value in manifest.result.items():
        if isinstance(value, str) and value in ("nan", "inf", "-inf"):
            value = float(value)
        row[f"{name}_result" if name in row else name] = value
    return row


def _flat(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _uniform(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns that mix types become text: a column of a Parquet file has one type."""
    mixed = [
        name
        for name in frame.columns
        if frame[name].dtype == object and frame[name].dropna().map(type).nunique() > 1
    ]
    return frame.assign(**{name: frame[name].map(str) for name in mixed})
