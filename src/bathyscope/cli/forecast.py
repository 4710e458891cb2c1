"""`bathyscope forecast`: will this network train?"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.case import CaseWords, with_case

if TYPE_CHECKING:
    from bathyscope.foresight import Forecast


@with_case
def forecast(
    words: CaseWords,
    budget: Annotated[int, typer.Option(min=1, help="Steps that you mean to train for.")] = 300,
    spend: Annotated[
        int, typer.Option(min=1, help="Most steps that a copy may take to find out.")
    ] = 32,
) -> None:
    """Say whether a network will train, from a few steps on a copy: trains, fails, or undecided.

    Example: bathyscope forecast plain-110 --lr 0.1 --budget 300
    """
    from bathyscope import foresight
    from bathyscope.cli.build import training_batches
    from bathyscope.cli.spinner import spinner

    with spinner(f"looking ahead with {words.model}, at most {spend} steps"):
        case = words.case()
        found = foresight.forecast(
            case.model,
            training_batches(words, steps=min(spend, 32)),
            loss=case.loss,
            optimizer=case.optimizer,
            budget=budget,
            spend=spend,
        )
    words.answer({"model": words.model} | asdict(found), lambda: _print(found))


def _print(found: "Forecast") -> None:
    typer.echo(str(found))
    known = found.calibrated_on
    typer.echo(f"Calibrated on {known['networks']} random trainings (data {known['data']}).")
