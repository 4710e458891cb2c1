"""Unpacking tar and zip archives that may have been made to do harm.

Members that climb out of the folder, are absolute, or are links or devices are refused, and what
was unpacked so far is removed.
"""

import gzip
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from bathyscope.core.errors import UsageError

# RuntimeError: a zip that is encrypted or compressed in a way Python does not know.
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    RuntimeError,
)
Member = tuple[str, bool, Callable[[], IO[bytes] | BufferedIOBase]]
"""A member's name, whether it is a regular file or folder, and how to open it."""


def is_archive(path: Path) -> bool:
    """Whether the file is a tar (plain or compressed) or zip archive, by its content."""
    return path.is_file() and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path))


def unpack(archive: Path, into: Path) -> None:
    """Write the files of a tar or zip archive below a new folder.

    Args:
        archive: `.tar`, `.tar.gz` and the like, or `.zip`; recognised by content.
        into: the folder to make; it must not exist, and does not after an error.

    Raises:
        UsageError: the archive is damaged, or a member would land outside the folder, is a link
            or a device.
    """
    into.mkdir(parents=True)
    try:
        with _damage_reported(archive):
            for name, is_plain, opened in _members(archive):
                target = into / _harmless(name, is_plain, archive)
                target.parent.mkdir(parents=True, exist_ok=True)
                with opened() as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise


def read_members(archive: Path, wanted: Collection[str]) -> dict[str, bytes]:
    """The contents of the members whose base name is wanted; nothing is written to disk.

    Raises:
        UsageError: as for `unpack`; a member that is not wanted can be the reason too.
    """
    contents: dict[str, bytes] = {}
    with _damage_reported(archive):
        for name, is_plain, opened in _members(archive):
            base = _harmless(name, is_plain, archive).name
            if base in wanted:
                with opened() as source:
                    contents[base] = source.read()
    return contents


def _members(archive: Path) -> Iterator[Member]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                if not info.is_dir():
                    is_plain = kind in (0, stat.S_IFREG)
                    yield info.filename, is_plain, partial(zipped.open, info)
        return
    with tarfile.open(archive) as tar:
        for entry in tar:
            if not entry.isdir():
                yield entry.name, entry.isreg(), partial(_opened, tar, entry)


def _opened(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> BufferedIOBase:
    source = tar.extractfile(entry)
    assert isinstance(source, BufferedIOBase), "only regular files are opened"
    return source


def _harmless(name: str, is_plain: bool, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or PureWindowsPath(name).drive or ".." in path.parts or "\\" in name:
        raise UsageError(
            f"{archive} holds {name!r}, which would land outside its folder; it was not unpacked: "
            f"do not trust this archive."
        )
    if not is_plain:
        raise UsageError(
            f"{archive} holds {name!r}, a link or a device; it was not unpacked: "
            f"do not trust this archive."
        )
    return path


@contextmanager
def _damage_reported(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise UsageError(
            f"{archive} is truncated, damaged or no archive; fetch it again."
        ) from error
