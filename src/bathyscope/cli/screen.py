"""What the command line prints: text of others is shown, and never steers the terminal."""

import typer

from bathyscope.core.terminal import printable

_quiet = False


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
        typer.echo(printable(text), err=err)
