"""The command line: one file a verb, registered here by name.

Verb modules import typer and light modules only; what loads torch is imported inside the functions,
so that `bathyscope --help` answers at once.
"""

import sys
from typing import Annotated

import typer

from bathyscope import __version__
from bathyscope.cli import (
    certify,
    check,
    compare,
    data,
    diagnose,
    hessian,
    nets,
    reproduce,
    show,
    sweep,
    train,
    treat,
)
from bathyscope.core.errors import BathyscopeError

app = typer.Typer(
    name="bathyscope",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"bathyscope {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def bathyscope(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Why does a very deep network train, or not? Block by block, with what helps.

    Every verb has --help with an example; --debug shows the traceback of an error.
    """


app.command("diagnose")(diagnose.diagnose)
app.command("explain")(diagnose.explain)
app.command("compare")(compare.compare)
app.command("treat")(treat.treat)
app.command("hessian")(hessian.hessian)
app.command("certify")(certify.certify)
app.command("check")(check.check)
app.command("nets")(nets.nets)
app.command("train")(train.train)
app.command("reproduce")(reproduce.reproduce)
app.command("sweep")(sweep.sweep)
app.command("show")(show.show)
app.add_typer(data.app, name="data")


def main() -> None:
    """Run the command line; an error is one sentence, `--debug` shows its traceback."""
    debug = "--debug" in sys.argv
    sys.argv[:] = [word for word in sys.argv if word != "--debug"]
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except BathyscopeError as error:
        if debug:
            raise
        typer.echo(f"bathyscope: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        text = f"bathyscope: {type(error).__name__}: {error} (--debug shows where)"
        typer.echo(text, err=True)
        sys.exit(1)
