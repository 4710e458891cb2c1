"""`python -m tools.forecast_table`: make the table behind the forecast; it resumes where it stopped."""

import sys
from pathlib import Path
from typing import Annotated

import typer

import bathyscope.foresight
from bathyscope.foresight.model import BUDGETS, FILE
from tools.forecast_table.parts import PARTS

RUNS = Path("runs/forecast")
MODEL = Path(bathyscope.foresight.__file__).parent / FILE

app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


@app.callback()
def _several() -> None:
    """The table behind the forecast."""


@app.command()
def label(
    networks: Annotated[int, typer.Option(min=1, help="Networks 0 to n.")] = 1000,
    on: Annotated[str, typer.Option(help="local, dask, dask://host:port, slurm.")] = "local",
    workers: Annotated[int, typer.Option(min=1, help="Processes started here.")] = 1,
    parts: Annotated[Path, typer.Option(help="Folder of the table's parts.")] = PARTS,
    runs: Annotated[Path, typer.Option(help="Folder of the run folders.")] = RUNS,
) -> None:
    """Train every network that the table does not hold yet, and write how it ended."""
    from bathyscope.sweep import GridProgress, backend_of
    from tools.forecast_table.parts import label_all

    backend = backend_of(on, workers=workers, folder=runs / "submitit")
    with GridProgress() as progress:
        held = label_all(
            range(networks), parts=parts, runs=runs, backend=backend, on_change=progress
        )
    typer.echo(f"{held} networks in {parts}.")


@app.command()
def observe(
    parts: Annotated[Path, typer.Option(help="Folder of the table's parts.")] = PARTS,
    again: Annotated[bool, typer.Option(help="Also those that have features.")] = False,
) -> None:
    """Measure the first steps of every labeled network: the features of the table."""
    from tools.forecast_table.observation import observe_all

    typer.echo(f"{observe_all(parts, again=again)} networks with features in {parts}.")


@app.command()
def fit(
    parts: Annotated[Path, typer.Option(help="Folder of the table's parts.")] = PARTS,
    out: Annotated[Path, typer.Option(help="The model's file.")] = MODEL,
) -> None:
    """Fit the model on the table, the held-out family and task left out, and write its numbers."""
    from tools.forecast_table.fit import fit as fit_rows
    from tools.forecast_table.fit import write_model
    from tools.forecast_table.observation import fitting_rows

    rows = fitting_rows(parts)
    write_model(fit_rows(rows), out)
    typer.echo(f"Fitted on {len(rows)} networks: {out}.")


@app.command()
def score(
    parts: Annotated[Path, typer.Option(help="Folder of the table's parts.")] = PARTS,
    held_out: Annotated[
        bool, typer.Option(help="Also the family and the data kept to the end: once, at the end.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the scores.")] = None,
) -> None:
    """Score the forecast on families, tasks and optimizers left out of the fit, beside simple answers."""
    import json

    from bathyscope.core.files import write_atomic
    from tools.forecast_table.observation import fitting_rows, held_out_rows
    from tools.forecast_table.parts import read_rows
    from tools.forecast_table.score import TUNED_ON, held_out_score, late_events, simple_answers
    from tools.forecast_table.score import score as scored

    rows, keys = fitting_rows(parts), ("family", "task", "optimizer")
    fresh = any(row["number"] not in TUNED_ON for row in rows)
    findings = {row["number"]: row["found"] for row in read_rows(parts, kind="findings")}
    result: dict[str, object] = {
        "labeled": len(rows) + len(held_out_rows(parts)),
        "left out": [scored(rows, key) for key in keys],
        "tuned on": sum(row["number"] in TUNED_ON for row in rows),
        "without those tuned on": [scored(rows, key, but=TUNED_ON) for key in keys if fresh],
        "by budget": [scored(rows, "family", budget=budget) for budget in BUDGETS],
        "simple answers": simple_answers(rows, findings=findings),
        "late events": late_events(rows),
    }
    if held_out:
        result["held out"] = held_out_score(rows, held_out_rows(parts))
    text = json.dumps(result, ensure_ascii=False, indent=1)
    typer.echo(text)
    if out is not None:
        write_atomic(out, (text + "\n").encode())


def main() -> None:
    """Run it; an error is one sentence."""
    from bathyscope.core.errors import BathyscopeError

    try:
        app()
    except BathyscopeError as error:
        typer.echo(str(error), err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
