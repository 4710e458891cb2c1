"""The pages of reference that follow from the code: every public name, every command, every key.

`generate.py` writes them.
"""

import importlib
import inspect
import re
from functools import partial
from types import ModuleType
from typing import Any

from pydantic import BaseModel
from typer.core import TyperArgument, TyperGroup
from typer.main import get_command

import bathyscope
from bathyscope.cli import app
from bathyscope.cli.named_run import NamedRun
from bathyscope.studies import all_studies, read_published
from bathyscope.sweep import Grid

PACKAGES = tuple(
    name for name in bathyscope.__all__ if isinstance(getattr(bathyscope, name), ModuleType)
)
_OPTIONS = "    options:\n      show_source: false\n      heading_level: 2\n"


def names() -> str:
    """The page of every public name, package by package."""
    own = [name for name in bathyscope.__all__ if _path_of(getattr(bathyscope, name))]
    rows = [_row("bathyscope", name, of=getattr(bathyscope, name)) for name in own]
    text = (
        "# All public names\n\nWhat `__all__` lists is a [promise](../stability.md).\n\n"
        f"## bathyscope\n\n`import bathyscope as bs`\n\n{_table(rows)}"
    )
    for package in PACKAGES:
        module = importlib.import_module(f"bathyscope.{package}")
        rows = [_row(package, name, of=getattr(module, name)) for name in _names_of(module)]
        text += f"\n## {package}\n\n{_first_line(module)}\n\n{_table(rows)}"
    return text


def package_page(package: str) -> str:
    """The page of one package: its names with their docstrings."""
    module = importlib.import_module(f"bathyscope.{package}")
    text = f"# {package}\n\n{_first_line(module)}\n\n```python\nfrom bathyscope import {package}\n```\n"
    plain = []
    for name in _names_of(module):
        result = getattr(module, name)
        if _path_of(result):
            text += f"\n::: {_path_of(result)}\n{_OPTIONS}"
        else:
            plain.append(f"| `{name}` | `{_cell(_shortened(result))}` |")
    if plain:
        text += "\n## Values\n\n| name | value |\n|---|---|\n" + "\n".join(plain) + "\n"
    return text


def _names_of(module: ModuleType) -> list[str]:
    return [n for n in module.__all__ if not isinstance(getattr(module, n), ModuleType)]


def _path_of(result: Any) -> str:
    """Where a class or function is defined; empty for a value."""
    if inspect.isclass(result) or inspect.isfunction(result):
        return f"{result.__module__}.{result.__qualname__}"
    return ""


def _row(package: str, name: str, *, of: Any) -> str:
    path = _path_of(of)
    page = f"{path.split('.')[1] if package == 'bathyscope' else package}.md"
    result = f"[`{name}`]({page}#{path})" if path else f"[`{name}`]({page}#values)"
    return f"| {result} | {_cell(_first_line(of)) if path else 'a value'} |"


def _table(rows: list[str]) -> str:
    return "| name | what |\n|---|---|\n" + "\n".join(rows) + "\n"


def _first_line(result: object) -> str:
    return (inspect.getdoc(result) or "").partition("\n")[0]


def _shortened(value: object) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) <= 100 else f"{text[:99]}…"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


CASE = "The case"


def command_line() -> str:
    """The page of every command with its arguments and options."""
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    text = (
        "# The command line\n\nEvery command, from the code itself. [The command line in "
        "use](../command-line.md) shows what they have in common.\n"
    )
    shared: list[Any] = []
    for name, command in root.commands.items():
        if isinstance(command, TyperGroup):
            for inner, verb in command.commands.items():
                text += _verb(f"{name} {inner}", verb)
            continue
        shared = shared or [p for p in command.params if _is_shared(p)]
        text += _verb(name, command)
    rows = "\n".join(_option(parameter) for parameter in shared)
    return (
        f"{text}\n## The case\n\nThe same words for `diagnose`, `treat`, `forecast`, `hessian`, "
        f"`certify`, `compare` and `train`.\n\n{_OPTION_HEAD}{rows}\n"
    )


_OPTION_HEAD = "| word | meaning | without it |\n|---|---|---|\n"


def _is_shared(parameter: Any) -> bool:
    return str(getattr(parameter, "rich_help_panel", "") or "").startswith(CASE)


def _verb(name: str, command: Any) -> str:
    text = f"\n## {name}\n\n{_examples(inspect.cleandoc(command.help or ''))}\n"
    own = [p for p in command.params if not _is_shared(p) and p.name not in ("help", "context")]
    if own:
        text += "\n" + _OPTION_HEAD + "\n".join(_option(p) for p in own) + "\n"
    if any(_is_shared(p) for p in command.params):
        text += "\nand [the case](#the-case).\n"
    return text


def _examples(result: str) -> str:
    """A help text with its examples as code, those that follow one another as one block."""
    shown = re.sub(r"(?m)^Example: (.+)$", r"```\n\1\n```", result)
    return shown.replace("\n```\n\n```\n", "\n")


def _option(parameter: Any) -> str:
    is_argument = isinstance(parameter, TyperArgument)
    text = (parameter.name.upper(),) if is_argument else parameter.opts
    result = ", ".join(f"`{word}`" for word in text)
    default = parameter.default
    shown = "" if default in (None, False, ...) or callable(default) else f"`{default}`"
    if is_argument and parameter.required:
        shown = "needed"
    return f"| {result} | {_cell(getattr(parameter, 'help', '') or '')} | {shown} |"


def configuration() -> str:
    """The page of every key of a run and of a grid."""
    return (
        "# Configuration\n\nWhat `bathyscope train --set KEY=VALUE` and the tables of a grid take; a "
        "key that is not known is refused, with the nearest that is.\n\n## A run\n\n"
        f"{_keys(NamedRun)}\n## A grid\n\nA TOML file for `bathyscope sweep`; see [many runs]"
        f"(../how-to/clusters.md).\n\n{_keys(Grid)}\n## Thresholds of findings\n\n"
        "`--thresholds FILE`: see [findings](../findings.md#thresholds).\n"
    )


def _keys(model: type[BaseModel]) -> str:
    meaning: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        meaning |= _attributes(kind.__doc__ or "")
    rows = []
    for name, one in model.model_fields.items():
        default = one.get_default(call_default_factory=True)
        shown = "needed" if one.is_required() else f"`{_plain_value(default)}`"
        rows.append(f"| `{name}` | {_cell(meaning.get(name, ''))} | {shown} |")
    return _OPTION_HEAD.replace("word", "key") + "\n".join(rows) + "\n"


def _plain_value(value: object) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def _attributes(doc: str) -> dict[str, str]:
    """The section `Attributes` of a docstring, by name."""
    section = inspect.cleandoc(doc).partition("Attributes:\n")[2].partition("\n\n")[0]
    result = re.findall(r"(?ms)^ {4}(\w+): (.*?)(?=^ {4}\w+: |\Z)", section)
    return {name: " ".join(text.split()) for name, text in result}


def gallery(results: Any) -> str:
    """The page of all published figures, theme by theme."""
    outcome = read_published(results)
    text = (
        "---\nhide: [navigation, toc]\n---\n\n# Gallery\n\nEvery figure and table that was run here, "
        "with the preset that made it; a click leads to what was met and what was not.\n"
    )
    for theme in dict.fromkeys(name.split(".")[0] for name in all_studies()):
        members = [
            s
            for name, s in all_studies().items()
            if name in outcome and name.startswith(f"{theme}.")
        ]
        cards = [
            _card(s.name, result["title"], preset)
            for s in members
            for preset, result in outcome[s.name].items()
        ]
        if cards:
            text += f'\n## {theme}\n\n<div class="gallery" markdown>\n\n' + "\n\n".join(cards)
            text += "\n\n</div>\n"
    return text


def _card(name: str, title: str, preset: str) -> str:
    theme = name.split(".")[0]
    title = title.replace("[", "(").replace("]", ")")  # what stands in brackets may be a link
    picture = f"![{title}](results/{name}.{preset}.png){{ loading=lazy }}"
    return (
        f"<div markdown>\n[{picture}](papers/{theme}-figures.md#{name.replace('.', '')})\n\n"
        f"**{name.partition('.')[2].replace('_', ' ').capitalize()}.** {title} *({preset})*\n</div>"
    )


PAGES = {
    "reference/names.md": names,
    "reference/command-line.md": command_line,
    "reference/configuration.md": configuration,
} | {f"reference/{package}.md": partial(package_page, package) for package in PACKAGES}
