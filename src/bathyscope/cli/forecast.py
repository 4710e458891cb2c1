"""`bathyscope forecast`: will this network train?"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.options import CommandOptions, with_options
from bathyscope.cli.screen import echo

if TYPE_CHECKING:
    from bathyscope.foresight import Forecast


@with_options
def forecast(
    text: CommandOptions,
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

    with spinner(f"looking ahead with {text.model}, at most {spend} steps"):
        setup = text.setup()
        result = foresight.forecast(
            setup.model,
            training_batches(text, steps=min(spend, 32)),
            loss=setup.loss,
            optimizer=setup.optimizer,
            budget=budget,
            spend=spend,
        )
    text.answer({"model": text.model} | asdict(result), lambda: _print(result))


def _print(result: "Forecast") -> None:
    echo(str(result))
    known = result.calibrated_on
    echo(f"Calibrated on {known['networks']} random trainings (data {known['data']}).")
