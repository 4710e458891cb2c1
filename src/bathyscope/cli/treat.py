"""`bathyscope treat`: find what is wrong, try what helps, and save what did."""

import json
from pathlib import Path
from typing import Annotated

import typer

from bathyscope.cli.case import (
    BatchSize,
    DataName,
    LossName,
    ModelName,
    ModelOptions,
    OptimizerName,
    Rate,
    Seed,
    Weights,
    case_of,
)
from bathyscope.cli.train import assignments


def treat(
    model: ModelName,
    weights: Weights = None,
    data: DataName = "digits",
    batch_size: BatchSize = 64,
    loss: LossName = "cross-entropy",
    optimizer: OptimizerName = "sgd",
    lr: Rate = 0.1,
    steps: Annotated[int, typer.Option(min=4, help="Steps of each short training.")] = 40,
    out: Annotated[
        Path | None, typer.Option(help="Write before and after as .html, .json or .png.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the treated weights to this .safetensors file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
    seed: Seed = 0,
    set_: ModelOptions = None,
) -> None:
    """Diagnose a network, try the remedies on copies, apply the best and show whether it helped.

    Example: bathyscope treat plain-56 --lr 0.1 --out before-after.html
    """
    from bathyscope import diagnosis as diagnosing
    from bathyscope.cli.waiting import waiting
    from bathyscope.report import write

    with waiting(f"treating {model}") as tell:
        case = case_of(
            model,
            weights=weights,
            data=data,
            batch_size=batch_size,
            loss=loss,
            optimizer=optimizer,
            lr=lr,
            seed=seed,
            options=assignments(set_ or []),
        )
        tell("diagnosing")
        before = diagnosing.diagnose(
            case.model, case.batch, loss=case.loss, optimizer=case.optimizer, title=model
        )
        treatment = diagnosing.treat(
            case.model, before, optimizer=case.optimizer, steps=steps, tell=tell
        )
    if as_json:
        typer.echo(json.dumps(treatment.summary()))
    else:
        _print(treatment)
    if out is not None:
        write(treatment.report(), out)
        typer.echo(f"written: {out}", err=True)
    if save is not None:
        from safetensors.torch import save_model

        save_model(case.model, str(save))
        typer.echo(f"written: {save}", err=True)


def _print(treatment: "object") -> None:
    from rich.console import Console
    from rich.table import Table

    from bathyscope.diagnosis import Treatment

    assert isinstance(treatment, Treatment)
    console = Console()
    console.print(f"[bold]Before[/]: {treatment.before.verdict}", highlight=False)
    table = Table(
        "remedy", "loss at the end", "problems", title="Tried on copies", title_justify="left"
    )
    for trial in treatment.trials:
        mark = " ←" if trial.name == treatment.applied else ""
        table.add_row(trial.name + mark, f"{trial.end:.3g}", str(trial.problems))
    console.print(table)
    if treatment.applied is None:
        console.print("No remedy did better than none; the network is as it was.")
        return
    console.print(f"[bold]Applied[/]: {treatment.applied}", highlight=False)
    console.print(f"[bold]After[/]: {treatment.after.verdict}", highlight=False)
    console.print(treatment.before_after.to_string(float_format=lambda v: f"{v:.3g}"))
    verdict = "It helped" if treatment.helped else "It trains better, but problems remain"
    console.print(f"[bold]{verdict}[/].")
