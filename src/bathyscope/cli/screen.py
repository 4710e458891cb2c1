"""What the command line prints: text of others is shown, and never steers the terminal."""

import typer

from bathyscope.core.terminal import printable


def echo(message: object = "", *, err: bool = False) -> None:
    """Print one message to standard output, or to standard error."""
    typer.echo(printable(str(message)), err=err)
