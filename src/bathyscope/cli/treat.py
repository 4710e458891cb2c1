"""`bathyscope treat`: find what is wrong, try what helps, and save what did."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.case import CaseWords, with_case
from bathyscope.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from bathyscope.diagnosis import Treatment


@with_case
def treat(
    words: CaseWords,
    steps: Annotated[int, typer.Option(min=4, help="Steps of each short training.")] = 40,
    out: Annotated[
        Path | None, typer.Option(help="Write before and after as .html, .json or .png.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the treated weights to this .safetensors file.")
    ] = None,
) -> None:
    """Diagnose a network, try the remedies on copies, apply the best and show whether it helped.

    Example: bathyscope treat plain-56 --lr 0.1 --out before-after.html
    """
    from bathyscope import diagnosis
    from bathyscope.cli.waiting import waiting
    from bathyscope.report import check_destination, write

    if out is not None:
        check_destination(out)
    if save is not None:
        _check_save(save)
    with waiting(f"treating {words.model}") as tell:
        case = words.case()
        tell("diagnosing")
        before = diagnosis.diagnose(
            case.model,
            case.batch,
            loss=case.loss,
            optimizer=case.optimizer,
            blocks=case.blocks,
            title=case.name,
        )
        treatment = diagnosis.treat(
            case.model, before, optimizer=case.optimizer, steps=steps, tell=tell
        )
    words.answer(treatment.summary(), lambda: _print(treatment))
    if out is not None:
        write(treatment.report(), out)
        typer.echo(f"written: {out}", err=True)
    if save is not None:
        _save(case.model, treatment, save)


def _check_save(path: Path) -> None:
    from bathyscope.core.files import check_place

    if path.suffix != ".safetensors":
        raise UsageError(
            f"Weights are saved as .safetensors, but --save {path} was given; choose this ending."
        )
    check_place(path)


def _save(model: "nn.Module", treatment: "Treatment", path: Path) -> None:
    """Write the weights, and say what a network must have to be the treated one with them."""
    from safetensors.torch import save_model

    from bathyscope.cli.build import NEEDS, needs

    needed = treatment.applied if treatment.change and treatment.change.structural else None
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(model, str(path), metadata={NEEDS: needed} if needed else None)
    typer.echo(f"written: {path}", err=True)
    if needed:
        typer.echo(needs(needed), err=True)


def _print(treatment: "Treatment") -> None:
    from rich.console import Console
    from rich.table import Table

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
