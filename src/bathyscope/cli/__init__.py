"""The command line: one file per command, registered here by name.

Command modules import typer and light modules only; what loads torch is imported inside the functions,
so that `bathyscope --help` answers at once.
"""

import functools
import importlib
import os
import sys
from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bathyscope import __version__
from bathyscope.cli.options import complete_json, is_broken_pipe
from bathyscope.cli.screen import echo, set_quiet
from bathyscope.core.errors import BathyscopeError, Interrupted

_VERBS = (
    "diagnose",
    "explain",
    "compare",
    "forecast",
    "treat",
    "hessian",
    "certify",
    "check",
    "nets",
    "train",
    "reproduce",
    "sweep",
    "show",
    "autopsy",
    "mcp",
    "run",
    "data",
)
"""Every command, in the order of the help; its function stands in the file of its name."""
_FILES = {"explain": "diagnose"}

_AGAIN = {
    "train": "Run it again to continue, with --resume if steps had been taken.",
    "sweep": "Run it again to continue: finished runs are kept, others resume from their checkpoints.",
    "reproduce": "Run it again to continue: finished runs are kept, others resume from their checkpoints.",
}
"""What Ctrl-C leaves of commands that can continue; the others write at their end, file by whole file."""


class _Commands(UserDict[str, Any]):
    """The commands by name; the file of one is imported when that one is asked for."""

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _command(name)
        return self.data[name]


class _Verbs(TyperGroup):
    """The commands; `--json` alone means standard output for each, Ctrl-C is one sentence."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands(dict.fromkeys(_VERBS))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] == ["run"]:  # what follows the script is the script's
            return super().parse_args(ctx, args)
        set_quiet("--quiet" in args)
        return super().parse_args(ctx, complete_json([word for word in args if word != "--quiet"]))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            command = ctx.invoked_subcommand
            after = _AGAIN.get(command, "No file is left half-written.")
            raise Interrupted(f"{command} was stopped by Ctrl-C. {after}") from stop


app = typer.Typer(
    name="bathyscope",
    cls=_Verbs,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> bool:
    if wanted:
        echo(f"bathyscope {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def bathyscope(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Why does a very deep network train, or not? Block by block, with what helps.

    Every command has --help with an example; --quiet prints files and formats alone, no words;
    --debug shows the traceback of an error.
    """


_TOGETHER = ("diagnose", "forecast", "treat", "hessian")
"""Verbs that all processes of torchrun run together, on the model that a factory shares out."""

_WRITES = ("out", "as_json", "save")


@contextmanager
def _one_report(name: str, options: dict[str, Any]) -> Iterator[None]:
    """Within, under torchrun, a group of processes of which the first alone speaks and writes."""
    if name not in _TOGETHER or os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    from bathyscope.training.distributed import launched_group

    with launched_group() as group, ExitStack() as stack:
        if group.rank:
            written = (*_WRITES, "recipe") if name == "treat" else _WRITES
            options |= {option: None for option in written if option in options}
            nothing = stack.enter_context(open(os.devnull, "w"))  # noqa: PTH123
            stack.enter_context(redirect_stdout(nothing))
        yield


def _command(name: str) -> Any:
    """The command of that name, from its file."""
    file = importlib.import_module(f"bathyscope.cli.{_FILES.get(name, name)}")
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    if name == "data":
        alone.add_typer(file.app, name=name)
        group: Any = typer.main.get_command(alone)
        return group.commands[name]
    if name == "run":  # what follows the script is the script's, and so is its exit code
        alone.command(name, context_settings={"allow_interspersed_args": False})(file.run)
    else:
        alone.command(name)(_guarded(name, getattr(file, name)))
    return typer.main.get_command(alone)


def _guarded(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """The command; `sys.exit` in a user's own code is an error of that code, not an end."""

    @functools.wraps(command)
    def guarded(*args: object, **kwargs: Any) -> None:
        try:
            with _one_report(name, kwargs):
                command(*args, **kwargs)
        except SystemExit as error:
            if is_broken_pipe(error):
                raise
            raise BathyscopeError(
                f"The work was cut off: code of yours (the model, its data or its loss) called "
                f"sys.exit({error.code!r})."
            ) from error

    return guarded


def main() -> None:
    """Run the command line; an error is one sentence, `--debug` shows its traceback."""
    ours = (
        sys.argv[1:2] if sys.argv[1:2] == ["run"] else sys.argv
    )  # a script has options of its own
    debug = "--debug" in ours
    if debug:
        sys.argv[:] = [word for word in sys.argv if word != "--debug"]
    if sys.argv[1:2] != ["run"]:
        # every picture goes into a file; a backend that is not there would end matplotlib's import
        os.environ["MPLBACKEND"] = "Agg"
        # torch's threads spin where they wait, which on a busy machine takes many times their work
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    given = sys.argv[1:]  # a script that is run gets others
    try:
        app()
    except SystemExit:
        if given in ([], ["data"]):  # the help has been shown, and no work was done
            command = " ".join(["bathyscope", *given])
            echo(f"{command}: a command is missing; the help above lists them.", err=True)
        raise
    except KeyboardInterrupt:
        sys.exit(130)
    except BathyscopeError as error:
        if debug:
            raise
        echo(f"bathyscope: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        text = f"bathyscope: {type(error).__name__}: {error} (--debug shows where)"
        echo(text, err=True)
        sys.exit(1)
