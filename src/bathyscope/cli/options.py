"""The setup that every command works on: one set of words on the command line, and `--json` for all.

A command takes the setup as its first argument and declares what is its own:

    @with_options
    def forecast(
        text: CommandOptions,
        budget: Annotated[int, typer.Option(min=1, help="Steps you mean to train.")] = 300,
    ) -> None:
        \"\"\"Will it train?

        Example: bathyscope forecast plain-110 --lr 0.1
        \"\"\"
        setup = words.setup()              # model, batch, loss, optimizer: see `build.Setup`
        result = …
        words.answer(found.as_dict(), lambda: echo(found))

and `cli/__init__.py` registers it: `_add("forecast", forecast.forecast)`. `MODEL`, `--data`,
`--batch-size`, `--loss`, `--optimizer`, `--lr`, `--momentum`, `--weight-decay`, `--weights`,
`--blocks`, `--device`, `--seed`, `--set` and `--json` are then its own as well, with the same meaning in
every other command; what a command has no use for it takes without a word, so that a setup can be pasted
from one command to another. `@with_options(batch_size=256)` changes a default, `without=("model",)`
leaves a word out. `words.given` has the names of those that were given, not left at their default.

Nothing here loads torch before `words.setup()`.
"""

import dataclasses
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, get_type_hints, overload

import typer

from bathyscope.cli.screen import echo, is_quiet

if TYPE_CHECKING:
    from bathyscope.cli.build import Setup

P = ParamSpec("P")
_PANEL = "The setup (the same words for every command)"
_SHOWN_ALONE = Path("-")


def _check_writable(path: Path | None) -> Path | None:
    """The file, unless it cannot be written: known before the work, not after it."""
    if path is not None and path != _SHOWN_ALONE:
        from bathyscope.core.files import check_location

        check_location(path)
    return path


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        callback=_check_writable,
        help="Write JSON to a file; alone, or with -, to standard output and nothing else there.",
        show_default=False,
    ),
]


def _option(*names: str, help: str, **limits: Any) -> object:
    return typer.Option(*names, help=help, rich_help_panel=_PANEL, **limits)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """What was said of the setup on the command line; `setup` makes it."""

    model: Annotated[
        str,
        typer.Argument(help="A network's name, package.module:factory, or the folder of a run."),
    ]
    data: Annotated[
        str,
        _option(
            help="A data set's name (also text, copy, addition, sorting), or package.module:factory."
        ),
    ] = "digits"
    batch_size: Annotated[
        int, _option("--batch-size", "--samples", min=1, help="Samples of a data set in the batch.")
    ] = 64
    loss: Annotated[
        str,
        _option(
            help="cross-entropy, mse, mae, bce, nll; none: the model's own; or package.module:function."
        ),
    ] = "cross-entropy"
    optimizer: Annotated[str, _option(help="sgd, adam or adamw.")] = "sgd"
    lr: Annotated[float, _option(min=0.0, help="Learning rate you mean to use.")] = 0.1
    momentum: Annotated[
        float, _option(min=0.0, help="Of sgd; the first beta of adam and adamw.")
    ] = 0.9
    weight_decay: Annotated[float, _option(min=0.0, help="Of the optimizer.")] = 1e-4
    weights: Annotated[
        Path | None,
        _option(help="A .safetensors file or a torch file of weights to load.", show_default=False),
    ] = None
    blocks: Annotated[
        list[str] | None,
        _option(help="Names or globs of the blocks to look at.", show_default=False),
    ] = None
    device: Annotated[
        str, _option(help="Where model and batches go: cpu, cuda, cuda:1, mps, xpu.")
    ] = "cpu"
    seed: Annotated[int, _option(help="Of the weights and of the batch.", min=0, max=2**63 - 1)] = 0
    set_: Annotated[
        list[str] | None,
        _option("--set", help="An option of the network: KEY=VALUE.", show_default=False),
    ] = None
    as_json: JsonFile = None
    given: frozenset[str] = frozenset()

    def setup(self, model: str | None = None) -> "Setup":
        """The model with its batch, loss and optimizer.

        Args:
            model: another name than the one given, for a command that takes several.

        Raises:
            UsageError: a name is unknown, a factory fails, or weights do not fit.
        """
        from bathyscope.cli.build import build_case

        return build_case(self, self.model if model is None else model)

    def answer(self, value: object, say: Callable[[], object]) -> None:
        """See `answer`."""
        answer(self.as_json, value, say)


def answer(as_json: Path | None, value: object, say: Callable[[], object]) -> None:
    """Say the result in words, as JSON into a file beside, or as JSON alone on standard output.

    Args:
        as_json: what `--json` was given.
        value: anything JSON can hold; numbers that are non-finite are written as their names.
        say: prints the words.
    """
    if is_quiet():
        say = _nothing
    if as_json is None:
        with _while_read():
            say()
        return
    from bathyscope.core.files import write_atomic
    from bathyscope.core.terminal import printable_json

    text = json_text(value)
    if as_json == _SHOWN_ALONE:
        typer.echo(printable_json(text))
        return
    write_atomic(as_json, text.encode() + b"\n")
    with _while_read():
        say()
    echo(f"written: {as_json}", err=True)


def json_text(value: object) -> str:
    """A value as JSON; numbers that are non-finite as their names."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError):  # infinities, tensors of one number and the like
        from bathyscope.core.json_values import encode_json

        return json.dumps(encode_json(value), allow_nan=False, ensure_ascii=False)


def _nothing() -> None:
    """What `--quiet` says."""


@contextmanager
def _while_read() -> Iterator[None]:
    """A reader who has had enough (`| head`) keeps no file from being written after the words."""
    try:
        yield
    except (BrokenPipeError, SystemExit) as error:
        if not is_broken_pipe(error):
            raise
        with open(os.devnull, "w") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), sys.stdout.fileno())


def is_broken_pipe(error: BaseException) -> bool:
    """Whether nobody reads what is printed; rich makes an exit of that."""
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)


def complete_json(text: list[str]) -> list[str]:
    """`--json` without a file means standard output.

    Examples:
        >>> complete_json(["check", "all", "--json", "--fail-on", "violated"])
        ['check', 'all', '--json', '-', '--fail-on', 'violated']
        >>> complete_json(["nets", "--json", "nets.json"])
        ['nets', '--json', 'nets.json']
    """
    completed = []
    for word, after in zip(text, [*text[1:], "--"][: len(text)], strict=True):
        completed.append(word)
        if word == "--json" and after.startswith("-") and after != "-":
            completed.append("-")
    return completed


@overload
def with_options(
    command: Callable[Concatenate[CommandOptions, P], None], /
) -> Callable[..., None]: ...


@overload
def with_options(
    *, without: Collection[str] = (), **defaults: object
) -> Callable[[Callable[Concatenate[CommandOptions, P], None]], Callable[..., None]]: ...


def with_options(
    command: Callable[Concatenate[CommandOptions, P], None] | None = None,
    /,
    *,
    without: Collection[str] = (),
    **defaults: object,
) -> Callable[..., object]:
    """The command with the words of the setup added to its own.

    Args:
        command: takes the setup first.
        without: words that it does not take.
        defaults: other defaults than the usual ones.
    """
    if command is None:
        return functools.partial(with_options, without=without, **defaults)
    hints = get_type_hints(CommandOptions, include_extras=True)
    shared = []
    for field in dataclasses.fields(CommandOptions):
        if field.name in without or field.name == "given":
            continue
        usual = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        shared.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(field.name, usual),
                annotation=hints[field.name],
            )
        )
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    names = [one.name for one in shared]

    # `Any`: what typer hands over is the context of its parser, of which `typer.Context` is a subclass
    def called(*, context: object, **values: Any) -> None:
        said = {name: values.pop(name) for name in names}
        given = frozenset(n for n in names if _is_given(context, n))
        options = CommandOptions(**{"model": ""} | said, given=given)
        with _naming_default_data(options):
            command(options, **values)  # type: ignore[call-arg]

    # MODEL before the command's own arguments, for they are read in this order
    first = [one for one in shared if one.name == "model"]
    rest = [one for one in shared if one.name != "model"]
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    vars(called)["__signature__"] = inspect.Signature([context, *first, *own, *rest])
    called.__annotations__ = {one.name: one.annotation for one in (context, *own, *shared)}
    return called


@contextmanager
def _naming_default_data(options: CommandOptions) -> Iterator[None]:
    """Where a model cannot take a batch that nobody asked for, say what the batch is and how to give another.

    Raises:
        BatchMisfit: it cannot.
    """
    from bathyscope.core.errors import BatchMisfit

    try:
        yield
    except BatchMisfit as error:
        if "data" in options.given or ":" not in options.model:
            raise
        raise BatchMisfit(
            f"{error} No --data was given, and this is a batch of the data set {options.data}; "
            "--data package.module:factory takes one of your own."
        ) from error


def _is_given(context: Any, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and bool(source.name == "COMMANDLINE")
