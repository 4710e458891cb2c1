"""`bathyscope data`: the data sets, where they lie and how to get them."""

import typer

app = typer.Typer(no_args_is_help=True, help="List, fetch and find data sets.")


@app.command("list")
def list_() -> None:
    """List the data sets.

    Example: bathyscope data list
    """
    from bathyscope import data

    for name in data.names():
        typer.echo(name)
