"""Where fetched sets lie, what to do if one is not there, and how files get there whole or not at all."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bathyscope.core.arguments import check_path
from bathyscope.core.errors import UsageError
from bathyscope.core.files import explain_write_errors, hold_lock, write_folder
from bathyscope.data.catalog import entry

Report = Callable[[str], None]

_HINT = "free some space, or set BATHYSCOPE_DATA to a folder on another disk"


def cache_dir() -> Path:
    """The folder for fetched sets.

    `$BATHYSCOPE_DATA` where it is set; otherwise `bathyscope` below the user's cache folder:
    `$XDG_CACHE_HOME` or `~/.cache`, on macOS `~/Library/Caches`, on Windows `%LOCALAPPDATA%`.
    """
    if chosen := os.environ.get("BATHYSCOPE_DATA"):
        return Path(chosen).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser() / "bathyscope"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "bathyscope"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/bathyscope"
    return Path.home() / ".cache/bathyscope"


def data_folder(given: Path | str | None) -> Path:
    """The folder that a user names for data, or the cache.

    Raises:
        UsageError: it is not a path.
    """
    return cache_dir() if given is None else check_path("data_dir", given).expanduser()


@contextmanager
def stage(final: Path, *, report: Report) -> Iterator[Path]:
    """A new empty folder that takes the place of `final` if the block ends without an error.

    Only one process at a time stages the same folder; others wait.

    Args:
        final: the folder to make or to replace.
        report: is called when another process has to be waited for.

    Raises:
        DiskFull: there is no room; nothing was kept.
        UsageError: the folder cannot be written.
    """
    with explain_write_errors(final.parent, hint=_HINT):
        final.parent.mkdir(parents=True, exist_ok=True)

    def wait() -> None:
        report(f"Waiting for another process that fetches into {final.parent}.")

    lock = final.parent / f".{final.name}.lock"
    with hold_lock(lock, on_wait=wait, keep=False), write_folder(final, hint=_HINT) as fresh:
        yield fresh


def path(name: str, *, data_dir: Path | str | None = None) -> Path:
    """The folder of a fetched set.

    Raises:
        UsageError: there is no such set, it needs no download, or it has not been fetched.
    """
    wanted = entry(name)
    if wanted.needs_nothing:
        raise UsageError(f"{name} needs no download: it has no folder.")
    location = _location(name, data_dir)
    if not is_present(name, data_dir=data_dir):
        raise UsageError(f"{name} is not in {location}; {how_to_get(name, data_dir=data_dir)}.")
    return location


def how_to_get(name: str, *, data_dir: Path | str | None = None) -> str:
    """What to do for a set that is not here, as the end of a sentence.

    Examples:
        >>> how_to_get("mnist")
        'run `bathyscope data fetch mnist`'
    """
    wanted = entry(name)
    if not wanted.by_hand:
        return f"run `bathyscope data fetch {name}`"
    return f"{wanted.by_hand} in {_location(name, data_dir)}"


def is_present(name: str, *, data_dir: Path | str | None = None) -> bool:
    """Whether a set can be used at once: it needs no download, or has been fetched.

    Examples:
        >>> is_present("digits")
        True
    """
    wanted = entry(name)
    location = _location(name, data_dir)
    if wanted.needs_nothing:
        return True
    if wanted.by_hand:
        return (location / "train").is_dir()
    return location.is_dir() and all((location / file.name).is_file() for file in wanted.files)


def _location(name: str, data_dir: Path | str | None) -> Path:
    return data_folder(data_dir) / name
