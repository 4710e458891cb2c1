"""Where a set lies, whether it is there, and what to do if it is not."""

from pathlib import Path

from bathyscope.core.errors import UsageError
from bathyscope.data.cache import data_folder
from bathyscope.data.catalog import entry


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
