"""`bathyscope sweep`: train every point of a grid."""

from pathlib import Path
from typing import Annotated

import typer

from bathyscope.cli.options import JsonFile, answer
from bathyscope.cli.screen import echo
from bathyscope.core.errors import BathyscopeError, UsageError


def sweep(
    grid: Annotated[Path, typer.Argument(help="A TOML file: [fixed], [product], [zip], seeds.")],
    out: Annotated[Path, typer.Option(help="Folder to write the folders of the runs to.")] = Path(
        "runs"
    ),
    on: Annotated[
        str, typer.Option(help="local, dask, dask://host:port, slurm, or submitit (local jobs).")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes started here; one per core if left out.")
    ] = None,
    retry: Annotated[
        str | None, typer.Option(help="Give `failed` to run again what failed before.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the grid and count its runs; run nothing.")
    ] = False,
    as_json: JsonFile = None,
) -> None:
    """Train every point of a grid, each in its own folder, and never the same twice.

    Run it again after a crash: what has a result stays, what was interrupted resumes from its last
    checkpoint. A run that diverges is a result; a run that fails is recorded with its traceback.

    Example: bathyscope sweep grid.toml --out runs/depth --on local --workers 2

    where grid.toml holds

        seeds = 3
        [fixed]
        data = "digits"
        epochs = 5
        [product]
        model = ["plain-20", "resnet-20"]
        lr = [0.1, 0.01]
    """
    from bathyscope.cli.named_run import NamedRun, run
    from bathyscope.sweep import GridProgress, backend_of, read_grid
    from bathyscope.sweep import sweep as run_all

    if retry not in (None, "failed"):
        raise UsageError(f"--retry {retry} is not known; the only choice is --retry failed.")
    points = read_grid(grid).points()
    configurations = [NamedRun.parse(point, source=f"The grid {grid}") for point in points]
    backend = backend_of(on, workers=workers, folder=out / "submitit")
    if dry_run:
        count = len(configurations)
        answer(as_json, {"total": count}, lambda: echo(f"{count} runs"))
        return
    with GridProgress() as progress:
        summary = run_all(
            run,
            configurations,
            out=out,
            backend=backend,
            retry_failed=retry == "failed",
            on_change=progress,
        )
    ended = ", ".join(f"{count} {how}" for how, count in summary.ended.items()) or "none"
    answer(
        as_json,
        {"total": summary.total, "before": summary.skipped} | summary.ended | {"folder": str(out)},
        lambda: echo(
            f"{summary.total} runs in {out}: {summary.skipped} had a result; now {ended}."
        ),
    )
    if failed := summary.ended["failed"]:
        raise BathyscopeError(
            f"{failed} of {summary.total} runs failed; `bathyscope show {out}` names them, "
            "failure.txt in each holds the traceback, --retry failed runs them again."
        )
