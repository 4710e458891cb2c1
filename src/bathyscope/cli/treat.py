"""`bathyscope treat`: find what is wrong, race what may help, and save what did."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.case import CaseWords, with_case
from bathyscope.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from bathyscope.cli.build import Case
    from bathyscope.diagnosis import Diagnosis, Treatment
    from bathyscope.remedies import Recipe
    from bathyscope.report import Report

ALL_RUNGS = "settings,weights,activations,structure"


@with_case
def treat(
    words: CaseWords,
    allow: Annotated[str, typer.Option(help="Rungs that a recipe may use.")] = ALL_RUNGS,
    spend: Annotated[
        int, typer.Option(min=300, help="Steps of the network that the search may take.")
    ] = 400,
    apply: Annotated[
        Path | None, typer.Option(help="Apply this recipe (.json), and search for none.")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="Write what was applied as a recipe (.json).")
    ] = None,
    code: Annotated[
        bool, typer.Option("--code", help="Print what was applied as PyTorch code.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write before and after as .html, .json or .png.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the treated weights to this .safetensors file.")
    ] = None,
) -> None:
    """Diagnose a network, find the smallest change with which it trains, and show that it does.

    Example: bathyscope treat plain-56 --lr 0.1 --recipe recipe.json --save treated.safetensors
    """
    # long: most of it is the options, one a line
    from bathyscope.cli.build import fresh_batches
    from bathyscope.cli.spinner import spinner
    from bathyscope.core.files import check_place
    from bathyscope.remedies import Recipe
    from bathyscope.report import check_destination, write

    if out is not None:
        check_destination(out)
    if save is not None:
        _check_save(save)
    if recipe is not None:
        check_place(recipe)
    given = None if apply is None else Recipe.load(apply)
    with spinner(f"treating {words.model}, at most {spend} steps and 300 to verify") as tell:
        case = words.case()
        tell("diagnosing")
        before = _diagnosis(case, case.optimizer)
        if given is not None:
            treatment = None
        else:
            from bathyscope import diagnosis

            treatment = diagnosis.treat(
                case.model,
                before,
                optimizer=case.optimizer,
                batches=fresh_batches(case, words),
                allow=[name.strip() for name in allow.split(",") if name.strip()],
                spend=spend,
                seed=words.seed,
                tell=tell,
            )
            given = treatment.recipe
    if treatment is not None:
        found = treatment
        words.answer(found.summary(), lambda: _print(found))
        report = found.report()
    else:
        assert given is not None
        report = _apply_recipe(words, case, given, before)
    if code and given is not None:
        typer.echo(given.code(), err=str(words.as_json) == "-")
    if out is not None:
        write(report, out)
        typer.echo(f"written: {out}", err=True)
    if recipe is not None and given is not None:
        given.save(recipe)
        typer.echo(f"written: {recipe}", err=True)
    if save is not None:
        _save(case.model, given, save)


def _diagnosis(case: "Case", optimizer: "Optimizer | None") -> "Diagnosis":
    from bathyscope import diagnosis

    return diagnosis.diagnose(
        case.model,
        case.batch,
        loss=case.loss,
        optimizer=optimizer,
        blocks=case.blocks,
        title=case.name,
    )


def _apply_recipe(
    words: CaseWords, case: "Case", recipe: "Recipe", before: "Diagnosis"
) -> "Report":
    """The report after a recipe that was given, beside the one before."""
    from dataclasses import replace

    from bathyscope.remedies import apply_

    after = _diagnosis(case, apply_(case.model, recipe, optimizer=case.optimizer))
    told = {
        "applied": recipe.words,
        "before": [f.code for f in before.findings],
        "after": [f.code for f in after.findings],
    }

    def say() -> None:
        typer.echo(f"Before: {before.verdict}\nApplied: {recipe.words}\nAfter: {after.verdict}")

    words.answer(told, say)
    return replace(after.report(), before=before.report())


def _check_save(path: Path) -> None:
    from bathyscope.core.files import check_place

    if path.suffix != ".safetensors":
        raise UsageError(
            f"Weights are saved as .safetensors, but --save {path} was given; choose this ending."
        )
    check_place(path)


def _save(model: "nn.Module", recipe: "Recipe | None", path: Path) -> None:
    """Write the weights, and with them what a network must have to be the treated one."""
    from safetensors.torch import save_model

    from bathyscope.cli.build import NEEDS

    needed = None if recipe is None else recipe.beside_the_weights
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {NEEDS: needed.to_json()} if needed is not None and needed.steps else None
    save_model(model, str(path), metadata=metadata)
    typer.echo(f"written: {path}", err=True)


def _print(treatment: "Treatment") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"[bold]Before[/]: {treatment.before.verdict}", highlight=False)
    table = Table(
        "recipe", "rung", "steps", "loss at the end", title="Tried on copies", title_justify="left"
    )
    for attempt in treatment.attempts:
        rung = attempt.recipe.rung if attempt.recipe.steps else ""
        table.add_row(attempt.name, rung, str(len(attempt.losses)), f"{attempt.end:.3g}")
    console.print(table)
    if treatment.recipe is not None:
        console.print(f"[bold]Applied[/]: {treatment.applied}", highlight=False)
        console.print(f"[bold]After[/]: {treatment.after.verdict}", highlight=False)
        console.print(treatment.before_after.to_string(float_format=lambda v: f"{v:.3g}"))
    for line in (treatment.outcome, treatment.lower_rungs, *treatment.notes):
        if line:
            console.print(line, highlight=False)
    console.print(
        f"Spent: {treatment.spent} of the network's own steps, and "
        f"{treatment.verification.steps} to verify.",
        highlight=False,
    )
