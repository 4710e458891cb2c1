"""Finding the papers: each is a package that an entry point of the group `bathyscope.papers` names.

The entry point's name is the theme word, and its value a package. Its module `claims` has `CLAIMS`, its
module `studies` has `STUDIES`; a paper may have one of them only. Either is a tuple of them, or names for
the number of each (`theorem_1`) the file in which it stands, which is then imported for that one alone.
"""

import functools
import importlib
import importlib.util
import tomllib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

GROUP = "bathyscope.papers"
Kind = Literal["claims", "studies"]
_PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@functools.cache
def papers() -> dict[str, str]:
    """The theme words and the packages they stand for: ours in their order, then those of others.

    The metadata of a working copy is as old as its last installation, so that its project file is
    read first, where there is one.
    """
    return _working_copy() | {entry.name: entry.value for entry in entry_points(group=GROUP)}


@functools.cache
def part(theme: str, kind: Kind) -> dict[str, Any]:
    """The claims or studies of a paper by name; none where there is no such paper, or it has no such.

    A paper that cannot be loaded, or whose objects have names of another theme, is left out with one
    warning that names its theme and package; the others continue.
    """
    package = papers().get(theme)
    if package is None:
        return {}
    try:
        result = _objects(theme, package, kind)
        strangers = [one.name for one in result if one.name.partition(".")[0] != theme]
    except Exception as error:  # whatever another package does wrong
        _leave_out(theme, package, f"{type(error).__name__}: {error}")
        return {}
    if strangers:
        _leave_out(
            theme,
            package,
            f"{strangers[0]} does not begin with the name of its entry point, {theme}.",
        )
        return {}
    return {one.name: one for one in result}


def names_of(theme: str, kind: Kind) -> list[str]:
    """The names of a paper's claims or studies; where it says their files, none of these is imported."""
    files = _files(theme, kind)
    return [f"{theme}.{number}" for number in files] if files else list(part(theme, kind))


def find(name: str, kind: Kind) -> Any | None:
    """The claim or study of that name, or None; its file alone is imported, where it is said."""
    theme, _, number = name.partition(".")
    file = _files(theme, kind).get(number)
    if file is not None:
        with suppress(Exception):  # `part` warns of it
            return _from_file(f"{papers()[theme]}.{kind}.{file}", name)
    return part(theme, kind).get(name)


def _objects(theme: str, package: str, kind: Kind) -> list[Any]:
    listed = _listed(package, kind)
    if isinstance(listed, tuple):
        return list(listed)
    home = f"{package}.{kind}"
    return [_from_file(f"{home}.{file}", f"{theme}.{number}") for number, file in listed.items()]


def _files(theme: str, kind: Kind) -> Mapping[str, str]:
    """The file of each claim or study by its number, for a paper that says it."""
    package = papers().get(theme)
    listed: object = None
    if package is not None:
        with suppress(Exception):  # `part` warns of it
            listed = _listed(package, kind)
    return listed if isinstance(listed, Mapping) else {}


def _listed(package: str, kind: Kind) -> Mapping[str, str] | tuple[Any, ...]:
    """What the package says of its claims or studies; nothing where it has no such module."""
    if importlib.util.find_spec(f"{package}.{kind}") is None:
        return ()
    listed = getattr(importlib.import_module(f"{package}.{kind}"), kind.upper())
    return listed if isinstance(listed, Mapping) else tuple(listed)


def _from_file(module: str, name: str) -> Any:
    """The object of that name in the file, which has it by itself or in a tuple."""
    for value in vars(importlib.import_module(module)).values():
        for one in value if isinstance(value, tuple) else (value,):
            if getattr(one, "name", None) == name:
                return one
    raise LookupError(f"{module} has no {name}.")


def _leave_out(theme: str, package: str, why: str) -> None:
    warnings.warn(f"The paper {theme} (package {package}) is left out: {why}", stacklevel=3)


def _working_copy() -> dict[str, str]:
    if not _PROJECT.is_file():
        return {}
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8")).get("project", {})
    result: dict[str, str] = project.get("entry-points", {}).get(GROUP, {})
    return result
