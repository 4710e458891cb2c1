"""`bathyscope forecast`: will this network train?"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bathyscope.cli.options import CommandOptions, with_options
from bathyscope.cli.out import FigureFiles, write_out
from bathyscope.cli.screen import echo

if TYPE_CHECKING:
    from bathyscope.foresight import Forecast


@with_options
def forecast(
    text: CommandOptions,
    budget: Annotated[int, typer.Option(min=1, help="Steps that you mean to train for.")] = 300,
    spend: Annotated[
        int | None,
        typer.Option(
            min=1, help="Steps that a copy takes; the larger of 40 and 4 % of the budget."
        ),
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Largest norm of the gradient, where you clip it.")
    ] = None,
    accumulate: Annotated[int, typer.Option(min=1, help="Batches that make one step.")] = 1,
    out: FigureFiles = None,
    fail_on: Annotated[
        Literal["fails", "lags"] | None,
        typer.Option(help="Exit with code 3 where it fails; with lags, where it lags or fails."),
    ] = None,
) -> None:
    """Say how a training will end, from a few steps on a copy: trains, lags, fails, or undecided.

    Example: bathyscope forecast plain-110 --lr 0.1 --budget 300
    """
    from bathyscope import foresight
    from bathyscope.cli.build import training_batches
    from bathyscope.cli.screen import spinner
    from bathyscope.foresight.course import look_ahead_steps

    steps = look_ahead_steps(budget, spend)
    with spinner(f"looking ahead with {text.model}, {steps} steps"):
        setup = text.setup()
        result = foresight.forecast(
            setup.model,
            training_batches(text, steps=steps * accumulate),
            loss=setup.loss,
            optimizer=setup.optimizer,
            budget=budget,
            spend=spend,
            clip=clip,
            accumulate=accumulate,
        )
    value = {"model": text.model} | asdict(result)
    text.answer(value, lambda: _print(result))
    title = f"forecast of {text.model}"
    write_out(out, title=title, value=value, say=lambda: _print(result), save=result.save)
    if fail_on is not None and result.verdict in ("fails", fail_on):
        echo(f"FAILED: the forecast is that it {result.verdict}", err=True)
        raise typer.Exit(3)


def _print(result: "Forecast") -> None:
    echo(str(result))
    known = result.calibrated_on
    count = known.get("networks", known.get("trainings"))
    echo(f"Calibrated on {count} random trainings (data {known['data']}).")
