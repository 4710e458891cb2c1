"""Finding the papers: each is a package that an entry point of the group `bathyscope.papers` names.

The entry point's name is the theme word, and its value a package. Its module `claims` has the tuple
`CLAIMS`, its module `studies` the tuple `STUDIES`; a paper may have one of them only.
"""

import functools
import importlib
import importlib.util
import tomllib
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


def part(theme: str, module: Literal["claims", "studies"]) -> tuple[Any, ...]:
    """What a paper has in its module `claims` or `studies`; nothing where it has no such module."""
    package = papers()[theme]
    if importlib.util.find_spec(f"{package}.{module}") is None:
        return ()
    result: tuple[object, ...] = getattr(
        importlib.import_module(f"{package}.{module}"), module.upper()
    )
    return result


def _working_copy() -> dict[str, str]:
    if not _PROJECT.is_file():
        return {}
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8")).get("project", {})
    result: dict[str, str] = project.get("entry-points", {}).get(GROUP, {})
    return result
