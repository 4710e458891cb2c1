"""`python -m bathyscope.foresight`: make the table behind the forecast; it goes on where it stopped."""

from pathlib import Path
from typing import Annotated

import typer

PARTS = Path("docs/forecast")
RUNS = Path("runs/forecast")

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)


@app.callback()
def _several() -> None:
    """The table behind the forecast."""


@app.command()
def label(
    networks: Annotated[int, typer.Option(min=1, help="Networks 0 to so many.")] = 1000,
    on: Annotated[str, typer.Option(help="local, dask, dask://host:port, slurm.")] = "local",
    workers: Annotated[int, typer.Option(min=1, help="Processes started here.")] = 1,
    parts: Annotated[Path, typer.Option(help="Folder of the table's parts.")] = PARTS,
    runs: Annotated[Path, typer.Option(help="Folder of the run folders.")] = RUNS,
) -> None:
    """Train every network that the table does not hold yet, and write how it ended."""
    from bathyscope.foresight.table.parts import label_all
    from bathyscope.sweep import GridProgress, backend_of

    backend = backend_of(on, workers=workers, folder=runs / "submitit")
    with GridProgress() as progress:
        held = label_all(
            range(networks), parts=parts, runs=runs, backend=backend, on_change=progress
        )
    typer.echo(f"{held} networks in {parts}.")


if __name__ == "__main__":
    app()
