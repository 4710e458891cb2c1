"""Finding the papers: each is a package that an entry point of the group `bathyscope.papers` names.

The entry point's name is the theme word, and its value a package. Its module `claims` has the tuple
`CLAIMS`, its module `studies` the tuple `STUDIES`; a paper may have one of them only.
"""

import functools
import importlib
import importlib.util
import tomllib
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

GROUP = "bathyscope.papers"
_PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@functools.cache
def papers() -> dict[str, str]:
    """The theme words and the packages they stand for: ours in their order, then those of others.

    The metadata of a working copy is as old as its last installation, so that its project file is
    read first, where there is one.
    """
    return _working_copy() | {entry.name: entry.value for entry in entry_points(group=GROUP)}


@functools.cache
def part(theme: str, module: Literal["claims", "studies"]) -> tuple[Any, ...]:
    """What a paper has in its module `claims` or `studies`; nothing where it has no such module.

    A paper that cannot be loaded, or whose objects have names of another theme, is left out with one
    warning that names its theme and package; the others continue.
    """
    package = papers()[theme]
    try:
        if importlib.util.find_spec(f"{package}.{module}") is None:
            return ()
        loaded = importlib.import_module(f"{package}.{module}")
        result: tuple[Any, ...] = tuple(getattr(loaded, module.upper()))
        strangers = [one.name for one in result if one.name.partition(".")[0] != theme]
    except Exception as error:  # whatever another package does wrong
        _leave_out(theme, package, f"{type(error).__name__}: {error}")
        return ()
    if strangers:
        _leave_out(
            theme,
            package,
            f"{strangers[0]} does not begin with the name of its entry point, {theme}.",
        )
        return ()
    return result


def _leave_out(theme: str, package: str, why: str) -> None:
    warnings.warn(f"The paper {theme} (package {package}) is left out: {why}", stacklevel=3)


def _working_copy() -> dict[str, str]:
    if not _PROJECT.is_file():
        return {}
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8")).get("project", {})
    result: dict[str, str] = project.get("entry-points", {}).get(GROUP, {})
    return result
