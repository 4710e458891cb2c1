"""What the command line prints: text of others is shown, and never steers the terminal; signs of life."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from bathyscope.core.terminal import printable, terminal_width, wrapped

_quiet = False
_live: tuple[Callable[[], object], Callable[[], object]] | None = None
"""What takes a line that moves off the terminal, and puts it there again."""


def set_quiet(wanted: bool) -> None:
    """Print no words from now on, or print them again: `--quiet`."""
    global _quiet
    _quiet = wanted


def is_quiet() -> bool:
    """Whether words are held back: what was asked for in a format, and errors, are printed all the same."""
    return _quiet


def echo(message: object = "", *, err: bool = False) -> None:
    """Print one message to standard output, or to standard error; an error also where it is quiet."""
    text = str(message)
    if not _quiet or (err and text.startswith(("bathyscope: ", "FAILED: "))):
        text, stream = printable(text), sys.stderr if err else sys.stdout
        if stream.isatty():
            text = wrapped(text, terminal_width())
        if _live is None:
            typer.echo(text, err=err)
            return
        stop, start = _live
        stop()
        typer.echo(text, err=err)
        start()


@contextmanager
def below(stop: Callable[[], object], start: Callable[[], object]) -> Iterator[None]:
    """Within, what is printed goes above a line that moves, such as a spinner's."""
    global _live
    _live = stop, start
    try:
        yield
    finally:
        _live = None


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with what is going on and for how long; nothing where output is not a terminal.

    Yields:
        A function that is called with what is done and what is left, shown behind the text.
    """
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    from bathyscope.cli.screen import below
    from bathyscope.core.progress import on_progress
    from bathyscope.core.terminal import guarded, printable

    console = guarded(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    phrase = TextColumn(
        "{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)
    )
    with Progress(
        SpinnerColumn(), TimeElapsedColumn(), phrase, console=console, transient=True, expand=True
    ) as shown:
        task = shown.add_task(printable(text), total=None)

        def notify(more: str) -> None:
            shown.update(task, description=printable(f"{text}: {more}"))

        with on_progress(notify), below(shown.stop, shown.start):
            yield notify
