"""`bathyscope train`: train a network in a run folder."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.options import CommandOptions, with_options
from bathyscope.cli.resolve import read_assignments
from bathyscope.cli.screen import echo
from bathyscope.core.errors import UsageError

_KEYS = (*("data", "batch_size", "loss", "optimizer", "lr"), *("momentum", "weight_decay", "seed"))

if TYPE_CHECKING:
    from bathyscope.training import Outcome


@with_options(without=("model", "set_"))
def train(
    text: CommandOptions,
    model: Annotated[
        str | None, typer.Argument(help="A network's name, or package.module:factory.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write the run's own folder to.")] = Path(
        "runs"
    ),
    epochs: Annotated[int | None, typer.Option(help="Passes over the training set (10).")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant, step or cosine (cosine).")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Another key of the configuration: KEY=VALUE.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with these keys; options go before it.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was begun, exactly.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Throw away what the run has, and begin again.")
    ] = False,
    save_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    save_steps: Annotated[
        int | None, typer.Option(help="Steps between checkpoints, beside the seconds.")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events into the run's folder.")
    ] = False,
) -> None:
    """Train a network and keep everything about it in a run folder.

    The folder is named by the network, the data and a hash of the whole configuration; a run that
    has a result is not run again. Ctrl-C saves and stops (exit code 130); --resume continues.

    Example: bathyscope train resnet-20 --data digits --out runs --epochs 5 --set weight_decay=5e-4
    """
    # long: most of it is the options, one per line
    from bathyscope.cli import named_run
    from bathyscope.runs import has_result, read_toml
    from bathyscope.training import ProgressBar, Saving
    from bathyscope.training.trackers import TensorBoard

    if resume and restart:
        raise UsageError("--resume and --restart were both given; give one of them.")
    values = read_toml(config) if config else {}
    values |= {key: getattr(text, key) for key in _KEYS if key in text.given}
    own = {"model": model, "epochs": epochs, "schedule": schedule}
    values |= {key: value for key, value in own.items() if value is not None}
    if "weights" in text.given:
        values["weights"] = str(text.weights)
    values |= read_assignments(set_ or [])
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
        device=text.device if "device" in text.given else None,
    )
    if os.environ.get("RANK", "0") != "0":
        return  # the first process speaks for all
    if had_result:
        echo(f"{folder} had a result already; --restart runs it again.", err=True)
    summary = {"folder": str(folder), "status": outcome.status, "ending": outcome.ending}
    text.answer(
        summary | {"result": outcome.result}, lambda: _print(settings.model, folder, outcome)
    )
    if outcome.status == "stopped" and outcome.ending.endswith(signal.SIGINT.name):
        raise typer.Exit(
            130
        )  # as a shell expects of Ctrl-C; a batch system's SIGTERM is not a failure


def _print(model: str, folder: Path, outcome: "Outcome") -> None:
    echo(f"{model}: {outcome.ending}")
    for name, value in outcome.result.items():
        echo(f"  {name}: {value:.4g}" if isinstance(value, float) else f"  {name}: {value}")
    echo(f"  folder: {folder}")
    if outcome.status == "stopped":
        echo("  It is saved; the same command with --resume continues.")
