"""`bathyscope treat`: find what is wrong, race what may help, and save what did."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.options import CommandOptions, with_options
from bathyscope.cli.out import FigureFiles, write_out
from bathyscope.cli.screen import echo
from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonObject

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from bathyscope.cli.build import Setup
    from bathyscope.diagnosis import Diagnosis, Treatment
    from bathyscope.remedies import Recipe
    from bathyscope.report import Report

ALL_LEVELS = "settings,weights,activations,structure"


@with_options
def treat(
    text: CommandOptions,
    allow: Annotated[
        str, typer.Option(help="Levels of change that a recipe may use.")
    ] = ALL_LEVELS,
    budget: Annotated[int, typer.Option(min=1, help="Steps that you mean to train for.")] = 300,
    spend: Annotated[
        int, typer.Option(min=300, help="Steps of the network that the search may take.")
    ] = 400,
    recipe: Annotated[
        Path | None, typer.Option(help="Apply this recipe (.json), and search for none.")
    ] = None,
    save_recipe: Annotated[
        Path | None, typer.Option(help="Write what was applied as a recipe (.json).")
    ] = None,
    code: Annotated[
        bool, typer.Option("--code", help="Print what was applied as PyTorch code.")
    ] = False,
    out: FigureFiles = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the treated weights to this .safetensors file.")
    ] = None,
) -> None:
    """Diagnose a network, find the smallest change with which it trains, and show that it does.

    Example: bathyscope treat plain-56 --lr 0.1 --save-recipe recipe.json --save treated.safetensors
    """
    # long: most of it is the options, one per line
    from bathyscope.cli.build import fresh_batches
    from bathyscope.cli.screen import spinner
    from bathyscope.core.files import check_location
    from bathyscope.remedies import Recipe
    from bathyscope.report import write
    from bathyscope.report.files import FORMS

    if save is not None:
        _check_save(save)
    if save_recipe is not None:
        check_location(save_recipe)
    given = None if recipe is None else Recipe.load(recipe)
    with spinner(f"treating {text.model}, at most {spend} steps and 450 to verify") as notify:
        setup = text.setup()
        notify("diagnosing")
        before = _diagnosis(setup, setup.optimizer)
        if given is not None:
            treatment = None
        else:
            from bathyscope import diagnosis

            treatment = diagnosis.treat(
                setup.model,
                before,
                optimizer=setup.optimizer,
                batches=fresh_batches(setup, text),
                allow=[name.strip() for name in allow.split(",") if name.strip()],
                budget=budget,
                spend=spend,
                seed=text.seed,
                notify=notify,
            )
            given = treatment.recipe
    outcome = _applied(setup, given, before) if treatment is None else _searched(treatment)
    text.answer(outcome.value, outcome.say)
    if code and given is not None:
        printed = given.code() if treatment is None else treatment.code()
        echo(printed, err=str(text.as_json) == "-")
    write_out(
        out,
        title=text.model,
        value=outcome.value,
        say=outcome.say,
        save=lambda path: write(outcome.report, path),
        saved=FORMS,
    )
    if save_recipe is not None and given is not None:
        given.save(save_recipe)
        echo(f"written: {save_recipe}", err=True)
    if save is not None:
        _save(setup.model, given, save)


def _diagnosis(setup: "Setup", optimizer: "Optimizer | None") -> "Diagnosis":
    from bathyscope import diagnosis

    return diagnosis.diagnose(
        setup.model,
        setup.batch,
        loss=setup.loss,
        optimizer=optimizer,
        blocks=setup.blocks,
        title=setup.name,
    )


@dataclass(frozen=True)
class _Outcome:
    """What a treatment came to, as JSON, in words and as a report."""

    value: JsonObject
    say: Callable[[], object]
    report: "Report"


def _searched(treatment: "Treatment") -> _Outcome:
    return _Outcome(treatment.summary(), lambda: _print(treatment), treatment.report())


def _applied(setup: "Setup", recipe: "Recipe | None", before: "Diagnosis") -> _Outcome:
    """What a recipe that was given came to, beside the state before."""
    from bathyscope.remedies import apply_

    assert recipe is not None
    after = _diagnosis(setup, apply_(setup.model, recipe, optimizer=setup.optimizer))
    result = {
        "applied": recipe.description,
        "before": [f.code for f in before.findings],
        "after": [f.code for f in after.findings],
    }

    def say() -> None:
        echo(f"Before: {before.verdict}\nApplied: {recipe.description}\nAfter: {after.verdict}")

    return _Outcome(result, say, replace(after.report(), before=before.report()))


def _check_save(path: Path) -> None:
    from bathyscope.core.files import check_location

    if path.suffix != ".safetensors":
        raise UsageError(
            f"Weights are saved as .safetensors, but --save {path} was given; choose this ending."
        )
    check_location(path)


def _save(model: "nn.Module", recipe: "Recipe | None", path: Path) -> None:
    """Write the weights, and with them what a network must have to be the treated one."""
    from safetensors.torch import save_model

    from bathyscope.cli.build import NEEDS

    needed = None if recipe is None else recipe.beside_the_weights
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {NEEDS: needed.to_json()} if needed is not None and needed.steps else None
    save_model(model, str(path), metadata=metadata)
    echo(f"written: {path}", err=True)


def _print(treatment: "Treatment") -> None:
    from rich.table import Table
    from rich.text import Text

    from bathyscope.core.terminal import guarded

    console = guarded()
    console.print(Text.assemble(("Before", "bold"), f": {treatment.before.verdict}"))
    table = Table(
        "recipe", "level", "steps", "loss at the end", title="Tried on copies", title_justify="left"
    )
    for attempt in treatment.attempts:
        level = attempt.recipe.level if attempt.recipe.steps else ""
        table.add_row(attempt.name, level, str(len(attempt.losses)), f"{attempt.end:.3g}")
    console.print(table)
    if treatment.recipe is not None:
        console.print(Text.assemble(("Applied", "bold"), f": {treatment.applied}"))
        console.print(Text.assemble(("After", "bold"), f": {treatment.after.verdict}"))
        console.print(treatment.before_after.to_string(float_format=lambda v: f"{v:.3g}"))
    for line in (treatment.outcome, treatment.lower_levels, *treatment.notes):
        if line:
            console.print(line, highlight=False)
    console.print(
        f"Spent: {treatment.spent} of the network's own steps, and "
        f"{treatment.verification.steps} to verify.",
        highlight=False,
    )
