"""`bathyscope data`: the data sets, where they lie and how to get them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bathyscope.cli.options import JsonFile, answer
from bathyscope.cli.screen import echo
from bathyscope.core.json_values import JsonObject

app = typer.Typer(no_args_is_help=True, help="List, fetch and find data sets.")

Name = Annotated[str, typer.Argument(help="A name that `bathyscope data list` shows.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="The folder of data sets; without it $BATHYSCOPE_DATA, else the user's cache.",
        show_default=False,
    ),
]


@app.command("list")
def list_(data_dir: DataDir = None, as_json: JsonFile = None) -> None:
    """List the data sets: shape, classes, sizes, whether they are here, source and license.

    Example: bathyscope data list --json
    """
    rows = _rows(data_dir)
    answer(as_json, rows, lambda: _print(rows))


def _print(rows: list[JsonObject]) -> None:
    from rich.table import Table

    from bathyscope.core.terminal import guarded

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("name", "shape", "classes", "samples", "here", "source"):
        table.add_column(column, no_wrap=True, justify="right" if column == "classes" else "left")
    table.add_column("license")
    for row in rows:
        table.add_row(
            row["name"],
            _shape(row["shape"]),
            str(row["classes"]),
            f"{_short(row['train'])}+{_short(row['test'])}",
            "yes" if row["present"] else "no",
            row["source"],
            row["license"],
        )
    guarded().print(table)
    echo(
        "Your own: folder:PATH (a folder of images for each class), npz:PATH (x_train, y_train, …), "
        "idx:PATH (four files named as MNIST's)."
    )


@app.command()
def fetch(
    name: Name,
    data_dir: DataDir = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A folder or archive on this machine to take the files from."),
    ] = None,
) -> None:
    """Bring a data set into the cache; every file must have its published checksum.

    Example: bathyscope data fetch cifar-10
    """
    from bathyscope import data

    with _progress() as (report, progress):
        folder = data.fetch(
            name, data_dir=data_dir, source=source, progress=progress, report=report
        )
    echo(folder)


@app.command()
def path(name: Name, data_dir: DataDir = None) -> None:
    """Print the folder of a data set that has been fetched.

    Example: ls "$(bathyscope data path mnist)"
    """
    from bathyscope import data

    echo(data.path(name, data_dir=data_dir))


@app.command()
def memory(
    name: Annotated[str, typer.Argument(help="A name, folder:PATH, npz:PATH or idx:PATH.")],
    data_dir: DataDir = None,
    size: Annotated[int | None, typer.Option(help="Side of the pictures of a folder.")] = None,
    as_json: JsonFile = None,
) -> None:
    """Say how much memory a data set takes, in memory and streamed, before anything is read.

    Example: bathyscope data memory imagenet
    """
    from bathyscope import data

    need = data.memory_need(name, data_dir=data_dir, size=size)
    plain = {"whole": need.whole, "streamed": need.streamed, "free": need.free, "fits": need.fits}
    answer(as_json, plain, lambda: echo(f"{name}: {need}"))


def _rows(data_dir: Path | None) -> list[dict[str, object]]:
    from bathyscope import data

    rows = []
    for name in data.names():
        entry = data.entry(name)
        present = data.is_present(name, data_dir=data_dir)
        rows.append(
            {
                "name": name,
                "shape": entry.shape,
                "classes": entry.num_classes,
                "train": entry.num_train,
                "test": entry.num_test,
                "present": present,
                "path": str(data.path(name, data_dir=data_dir))
                if present and not entry.needs_nothing
                else None,
                "source": entry.origin,
                "fetched_from": [source.label for source in entry.sources],
                "license": entry.license,
            }
        )
    for sequence in data.sequence_entries():
        rows.append(
            {
                "name": sequence.name,
                "shape": (sequence.context,),
                "classes": sequence.vocabulary,
                "train": sequence.num_train,
                "test": sequence.num_test,
                "present": True,
                "path": None,
                "source": sequence.origin,
                "fetched_from": [],
                "license": sequence.license,
            }
        )
    return rows


def _shape(sizes: tuple[int, ...]) -> str:
    """`1×8×8`, or `64 tokens`, of which there are as many as classes."""
    return f"{sizes[0]} tokens" if len(sizes) == 1 else "×".join(map(str, sizes))


def _short(count: int) -> str:
    return f"{count // 1000}k" if count >= 10_000 else str(count)


@contextmanager
def _progress() -> Iterator[tuple[Callable[[str], None], Callable[[str, int, int | None], None]]]:
    """What to show of sentences and of bytes: a bar on a terminal, sentences alone elsewhere."""
    from bathyscope.core.progress import terminal_bar

    bar = terminal_bar("", total=None, of_bytes=True)
    if bar is None:
        yield lambda text: echo(text, err=True), lambda name, done, total: None
        return
    with bar:
        task = bar.task_ids[0]

        def report(text: str) -> None:
            bar.console.print(text, highlight=False)
            bar.reset(task, total=None, description="")

        def progress(name: str, done: int, total: int | None) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield report, progress
