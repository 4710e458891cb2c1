"""`bathyscope train`: train a network in a run folder."""

import json
import os
import signal
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bathyscope.core.errors import UsageError

if TYPE_CHECKING:
    from bathyscope.training import Outcome


def train(
    model: Annotated[
        str | None, typer.Argument(help="A network's name, or package.module:factory.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder that the run's own folder is made in.")] = Path(
        "runs"
    ),
    data: Annotated[str | None, typer.Option(help="A data set's name (digits).")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training set (10).")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples in a step (64).")] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd, adam or adamw (sgd).")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate (0.1).")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant, step or cosine (cosine).")] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, data order, augmentation.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other key of the configuration: KEY=VALUE."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with these keys; options go before it.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was begun, exactly.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Throw away what the run has, and begin anew.")
    ] = False,
    save_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    save_steps: Annotated[
        int | None, typer.Option(help="Steps between checkpoints, beside the seconds.")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events into the run's folder.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Train a network and keep everything about it in a run folder.

    The folder is named by the network, the data and a hash of the whole configuration; a run that
    has a result is not run again. Ctrl-C saves and stops (exit code 130); --resume goes on.

    Example: bathyscope train resnet-20 --data digits --out runs --epochs 5 --set weight_decay=5e-4
    """
    from bathyscope.cli import named_run
    from bathyscope.runs import has_result, read_toml
    from bathyscope.training import ProgressBar, Saving
    from bathyscope.training.trackers import TensorBoard

    if resume and restart:
        raise UsageError("--resume and --restart were both given; give one of them.")
    values = read_toml(config) if config else {}
    given = {
        "model": model,
        "data": data,
        "epochs": epochs,
        "batch_size": batch_size,
        "optimizer": optimizer,
        "lr": lr,
        "schedule": schedule,
        "seed": seed,
    }
    values |= {key: value for key, value in given.items() if value is not None}
    values |= assignments(set_ or [])
    settings = named_run.NamedRun.parse(values)
    folder = out / settings.folder_name()
    had_result = not restart and has_result(folder)
    outcome = named_run.run(
        settings,
        folder,
        callbacks=(
            ProgressBar(settings.model),
            *([TensorBoard(folder / "tensorboard")] if tensorboard else []),
        ),
        begun="resume" if resume else "restart" if restart else "refuse",
        saving=Saving(every_seconds=save_seconds, every_steps=save_steps),
    )
    if os.environ.get("RANK", "0") != "0":
        return  # the first process speaks for all
    if had_result:
        typer.echo(f"{folder} had a result already; --restart runs it again.", err=True)
    _tell(settings.model, folder, outcome, as_json=as_json)
    if outcome.status == "stopped" and outcome.ending.endswith(signal.SIGINT.name):
        raise typer.Exit(
            130
        )  # as a shell expects of Ctrl-C; a batch system's SIGTERM is no failure


def _tell(model: str, folder: Path, outcome: "Outcome", *, as_json: bool) -> None:
    if as_json:
        summary = {"folder": str(folder), "status": outcome.status, "ending": outcome.ending}
        typer.echo(json.dumps(summary | {"result": outcome.result}))
        return
    typer.echo(f"{model}: {outcome.ending}")
    for name, value in outcome.result.items():
        typer.echo(f"  {name}: {value:.4g}" if isinstance(value, float) else f"  {name}: {value}")
    typer.echo(f"  folder: {folder}")


def assignments(words: list[str]) -> dict[str, Any]:
    """`KEY=VALUE` words as a dict; a value is read as TOML and, where it is none, as a string.

    Raises:
        UsageError: a word holds no `=`.

    Examples:
        >>> assignments(["lr=0.1", "schedule=step", "milestones=[0.5]"])
        {'lr': 0.1, 'schedule': 'step', 'milestones': [0.5]}
    """
    values = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {word!r} is not KEY=VALUE; write for instance --set lr=0.1.")
        try:
            values[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[key] = text
    return values
