"""`bathyscope autopsy`: what went wrong in a training, from what it left behind."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.case import JsonFile, answer

if TYPE_CHECKING:
    from bathyscope.recorder import Autopsy

_MOST_LAYERS = 8


def autopsy(
    place: Annotated[
        Path,
        typer.Argument(help="A log of `watch`, the folder of a run, or a file of earlier weights."),
    ],
    after: Annotated[
        Path | None,
        typer.Argument(help="With earlier weights: the later ones.", show_default=False),
    ] = None,
    as_json: JsonFile = None,
) -> None:
    """Tell what went wrong in a training, in order, where it began, and what to change.

    Example: bathyscope autopsy runs/mine

    Example: bathyscope autopsy before.safetensors after.safetensors
    """
    found = _autopsy(place, after)

    def say() -> None:
        typer.echo(str(found))
        if found.layers and found.began is not None:
            _print_layers(found)

    value = dataclasses.asdict(found) | {"events": [event.to_json() for event in found.events]}
    answer(as_json, value, say)


def _autopsy(place: Path, after: Path | None) -> "Autopsy":
    from bathyscope.core.errors import UsageError
    from bathyscope.recorder import autopsy_of_log, autopsy_of_weights, is_log
    from bathyscope.runs import is_run

    if after is not None:
        from bathyscope.cli.build import read_weights

        return autopsy_of_weights(read_weights(place)[0], read_weights(after)[0])
    if is_log(place):
        return autopsy_of_log(place)
    if is_run(place):
        return _of_run(place)
    raise UsageError(
        f"{place} is neither a log of `bathyscope.watch` nor the folder of a run; give one of these, "
        "or two files of weights, the earlier first."
    )


def _of_run(folder: Path) -> "Autopsy":
    """From the metrics of a run, and from its last two checkpoints where there are two."""
    from bathyscope.recorder import autopsy_of_metrics, autopsy_of_weights
    from bathyscope.runs import read_metrics, stored_weights

    found = autopsy_of_metrics(read_metrics(folder / "metrics.jsonl"))
    states = stored_weights(folder)
    if len(states) < 2:
        return found
    (later, after), (earlier, before) = states[:2]
    weights = autopsy_of_weights(before, after)
    between = f"Between the checkpoints of steps {earlier} and {later}: "
    return dataclasses.replace(
        found,
        sentences=(*found.sentences, between + weights.sentences[0], *weights.sentences[1:]),
        began=weights.began or found.began,
        advice=tuple(dict.fromkeys((*found.advice, *weights.advice))),
        layers=weights.layers,
    )


def _print_layers(found: "Autopsy") -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    shown = Table("layer", "‖w‖ before", "after", "moved", "not finite", box=SIMPLE)
    for change in found.layers[:_MOST_LAYERS]:
        numbers = (f"{change.norm_before:.4g}", f"{change.norm_after:.4g}", f"{change.moved:.3g}")
        shown.add_row(change.layer, *numbers, str(change.lost or ""))
    Console().print(shown)
