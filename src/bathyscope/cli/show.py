"""`bathyscope show`: a run, or a folder of runs, as a table and a picture."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.options import JsonFile, answer
from bathyscope.cli.out import OutFiles, write_out
from bathyscope.cli.screen import echo

if TYPE_CHECKING:
    import pandas as pd

# What is worth a column, if it is there, beside the settings in which the runs differ.
_RESULTS = ("step", "train_loss", "test_loss", "test_accuracy", "loss")


def show(
    folder: Annotated[Path, typer.Argument(help="A run's folder, or one that holds runs.")],
    plot: Annotated[
        Path | None, typer.Option(help="Draw the curves of all runs into this picture (.png).")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="What to draw; test_loss, or train_loss without a test.")
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="Write the whole table, every column: .csv or .parquet.")
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Show what `watch` noticed, from a log it wrote.")
    ] = False,
    out: OutFiles = None,
    as_json: JsonFile = None,
) -> None:
    """Show how the runs of a folder stand: what differs between them and how each ended.

    Example: bathyscope show runs/depth --plot curves.png --table runs.csv
    """
    from bathyscope import runs

    if events:
        _show_events(folder, as_json, out)
        return
    frame = runs.table(folder)
    if table is not None:
        runs.write_table(frame, table)
    if plot is not None:
        _draw(folder, frame, plot, metric=metric)
    rows = json.loads(frame.to_json(orient="records"))
    answer(as_json, rows, lambda: _say(folder, frame))
    write_out(out, title=str(folder), value=rows, say=lambda: _say(folder, frame))


def _show_events(folder: Path, as_json: Path | None, out: list[Path] | None) -> None:
    from bathyscope.recorder import read_events

    result = read_events(folder)

    def say() -> None:
        for event in result:
            echo(event.sentence)
            for line in event.before:
                echo(f"  before it, {line}")
        if not result:
            echo("Nothing out of the ordinary was noticed.")

    value = [event.to_json() for event in result]
    answer(as_json, value, say)
    write_out(out, title=f"events of {folder}", value=value, say=say)


def _say(folder: Path, frame: "pd.DataFrame") -> None:
    from bathyscope.sweep import read_plan

    _print(frame)
    missing = len({*read_plan(folder)} - {*frame["run"]})
    counts = ", ".join(f"{n} {how}" for how, n in frame["status"].value_counts().items())
    number = f"{len(frame)} run{'s' if len(frame) > 1 else ''}"
    echo(f"{number}: {counts}" + (f"; {missing} not begun" if missing else ""))
    for row in frame[frame["status"].isin(["failed", "diverged", "stopped"])].itertuples():
        echo(f"  {row.run}: {row.ending}")


def _print(frame: "pd.DataFrame") -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from bathyscope.core.terminal import guarded

    settings = list(frame.columns[1 : frame.columns.get_loc("status")])
    differ = [c for c in settings if frame[c].map(str).nunique() > 1]
    results = [c for c in _RESULTS if c in frame and c not in settings]
    shown = Table("run", *differ, "status", *results, box=SIMPLE)
    for _, row in frame.iterrows():
        # the readable part of the name repeats the settings: its hash is enough to find the folder
        name = row["run"] if len(frame) == 1 else f"…{row['run'][-10:]}"
        shown.add_row(name, *(_text(row[c]) for c in (*differ, "status", *results)))
    guarded().print(shown)


def _text(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return "" if value is None else str(value)


def _draw(folder: Path, frame: "pd.DataFrame", path: Path, *, metric: str | None) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from bathyscope import runs
    from bathyscope.core.errors import UnknownName, UsageError
    from bathyscope.core.files import check_location, write_atomic

    endings = sorted(FigureCanvasAgg.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in endings:
        raise UsageError(
            f"{path.name} is not a picture's name; end it in .png, or one of {', '.join(endings)}."
        )
    check_location(path)
    curves = runs.curves(folder)
    if curves.empty:
        raise UsageError(f"No run in {folder} has completed an epoch; there is nothing to draw.")
    metric = metric or ("test_loss" if "test_loss" in curves else "train_loss")
    if metric not in curves:
        known = [c for c in curves.columns if c not in ("run", "kind", "epoch", "step")]
        raise UnknownName("metric", metric, known)
    drawn = curves.dropna(subset=metric)["run"].nunique()
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for name, curve in curves.groupby("run"):
        axes.plot(curve["epoch"] + 1, curve[metric], marker=".", label=str(name))
    if "loss" in metric and (curves[metric].dropna() > 0).all():
        axes.set_yscale("log")
    axes.set(xlabel="epoch", ylabel=metric.replace("_", " "), title=f"{drawn} of {len(frame)} runs")
    if len(frame) <= 12:
        axes.legend(fontsize="x-small")
    contents = io.BytesIO()
    figure.savefig(contents, dpi=150, format=path.suffix.lower().removeprefix("."))
    write_atomic(path, contents.getvalue())
    plt.close(figure)
