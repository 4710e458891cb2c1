"""`bathyscope autopsy`: what went wrong in a training, from what it left behind."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.options import JsonFile, answer
from bathyscope.cli.out import OutFiles, write_out
from bathyscope.cli.screen import echo

if TYPE_CHECKING:
    from bathyscope.recorder import Autopsy

_MOST_LAYERS = 8


def autopsy(
    location: Annotated[
        Path,
        typer.Argument(help="A log of `watch`, the folder of a run, or a file of earlier weights."),
    ],
    after: Annotated[
        Path | None,
        typer.Argument(help="With earlier weights: the later ones.", show_default=False),
    ] = None,
    out: OutFiles = None,
    as_json: JsonFile = None,
) -> None:
    """Report what went wrong in a training, in order, where it began, and what to change.

    Example: bathyscope autopsy runs/mine

    Example: bathyscope autopsy before.safetensors after.safetensors
    """
    from bathyscope import recorder

    if after is None:
        result = recorder.autopsy(location)
    else:
        from bathyscope.cli.build import read_weights

        result = recorder.autopsy(read_weights(location)[0], read_weights(after)[0])

    def say() -> None:
        echo(str(result))
        if result.layers and result.began is not None:
            _print_layers(result)

    value = dataclasses.asdict(result) | {"events": [event.to_json() for event in result.events]}
    answer(as_json, value, say)
    write_out(out, title=f"autopsy of {location}", value=value, say=say)


def _print_layers(result: "Autopsy") -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from bathyscope.core.terminal import guarded

    shown = Table("layer", "‖w‖ before", "after", "moved", "non-finite", box=SIMPLE)
    for change in result.layers[:_MOST_LAYERS]:
        numbers = (f"{change.norm_before:.4g}", f"{change.norm_after:.4g}", f"{change.moved:.3g}")
        shown.add_row(change.layer, *numbers, str(change.lost or ""))
    guarded().print(shown)
