"""Files that appear whole or not at all: temporary file, fsync, rename."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bathyscope.core.errors import BathyscopeError, UsageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFull(BathyscopeError):
    """A write did not fit; what was on disk before is intact."""


@contextmanager
def disk_full_named(path: Path) -> Iterator[None]:
    """Turn the system's error of a full disk (or quota, or file limit) into one clear sentence.

    Raises:
        DiskFull: in place of the system's error.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DiskFull(
            f"The disk has no room to write {path} ({error.strerror}); what was saved before is "
            "intact: free some space and resume."
        ) from error


def check_place(path: Path, *, folder: bool = False) -> None:
    """Raise where no file (or no folder) can be written at a path, and leave nothing behind.

    A computation of minutes asks this before it begins.

    Raises:
        UsageError: something of the other kind is there, or the folder around it takes no files.

    Examples:
        >>> check_place(Path(tempfile.mkdtemp()) / "reports" / "first.html")
    """
    try:
        if not folder and path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        around = (path, *path.absolute().parents) if folder else path.absolute().parents
        with tempfile.TemporaryFile(dir=next(place for place in around if place.exists())):
            pass
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}; give another place."
        ) from error


def make_folder(folder: Path) -> None:
    """Make a folder that can be written to, with those around it.

    Raises:
        UsageError: it cannot be made, or takes no files.
        DiskFull: there is no room.
    """
    check_place(folder, folder=True)
    with disk_full_named(folder):
        folder.mkdir(parents=True, exist_ok=True)


def write_atomic(path: Path, contents: bytes) -> None:
    """Replace the file by these contents, so that a reader or a crash sees the old or the new ones.

    Args:
        path: where to write; its folder must be there.
        contents: the whole file.

    Raises:
        DiskFull: there is no room. The old file is untouched and no temporary file is left.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.txt"
        >>> write_atomic(path, b"whole")
        >>> path.read_bytes()
        b'whole'
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with disk_full_named(path):
            write_durably(temporary, contents)
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_durably(path: Path, contents: bytes) -> None:
    """Write and fsync a file in place."""
    with path.open("wb") as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames in the folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
