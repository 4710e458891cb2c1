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
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Protocol, runtime_checkable

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
MOST_BYTES = 2 << 30
"""What an archive may unpack to, where the size of its files is not known: 2 GiB."""


@runtime_checkable
class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """At most this many."""


@runtime_checkable
class Writable(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> int:
        """All of them."""


Member = tuple[str, bool, Callable[[], AbstractContextManager[Readable]]]
"""A member's name, whether it is a regular file or folder, and how to open it."""


def is_archive(path: Path) -> bool:
    """Whether the file is a tar (plain or compressed) or zip archive, by its content."""
    return path.is_file() and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path))


def unpack(archive: Path, into: Path, *, most_bytes: int = MOST_BYTES) -> None:
    """Write the files of a tar or zip archive below a new folder.

    Args:
        archive: `.tar`, `.tar.gz` and the like, or `.zip`; recognized by content.
        into: the folder to make; it must not exist, and does not after an error.
        most_bytes: that it may unpack to.

    Raises:
        UsageError: the archive is damaged or unpacks to more, or a member would land outside the
            folder, is a link or a device.
    """
    into.mkdir(parents=True)
    left = most_bytes
    try:
        with _explain_damage(archive):
            for name, is_plain, opened in _members(archive, most_bytes):
                target = into / _harmless(name, is_plain, archive)
                target.parent.mkdir(parents=True, exist_ok=True)
                with opened() as source, target.open("wb") as sink:
                    left -= copy_limited(source, sink, left, archive)
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise


def read_members(archive: Path, wanted: Collection[str]) -> dict[str, bytes]:
    """The contents of the members whose base name is wanted; nothing is written to disk.

    Raises:
        UsageError: as for `unpack`; a member that is not wanted can be the reason too.
    """
    contents: dict[str, bytes] = {}
    with _explain_damage(archive):
        for name, is_plain, opened in _members(archive, MOST_BYTES):
            base = _harmless(name, is_plain, archive).name
            if base in wanted:
                buffer = BytesIO()
                with opened() as source:
                    copy_limited(source, buffer, MOST_BYTES, archive)
                contents[base] = buffer.getvalue()
    return contents


def copy_limited(source: Readable, sink: Writable, most_bytes: int, archive: Path) -> int:
    """Copy and return the number of bytes, which may be far more than an archive says.

    Raises:
        UsageError: there are more than allowed.
    """
    done = 0
    while chunk := source.read(1 << 20):
        done += len(chunk)
        if done > most_bytes:
            raise _too_much(archive, most_bytes)
        sink.write(chunk)
    return done


def _too_much(archive: Path, most_bytes: int) -> UsageError:
    return UsageError(
        f"{archive} unpacks to more than {most_bytes / 2**20:,.0f} MiB, the most that is taken of "
        "it; nothing was kept: do not trust this archive."
    )


def _members(archive: Path, most_bytes: int) -> Iterator[Member]:
    """The members, as long as what they say of their sizes stays within the limit."""
    said = 0
    for size, member in _sized_members(archive):
        said += size
        if said > most_bytes:
            raise _too_much(archive, most_bytes)
        yield member


def _sized_members(archive: Path) -> Iterator[tuple[int, Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                if not info.is_dir():
                    is_plain = kind in (0, stat.S_IFREG)
                    yield info.file_size, (info.filename, is_plain, partial(zipped.open, info))
        return
    with tarfile.open(archive) as tar:
        for entry in tar:
            if not entry.isdir():
                yield entry.size, (entry.name, entry.isreg(), partial(_open, tar, entry))


def _open(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> AbstractContextManager[Readable]:
    source = tar.extractfile(entry)
    assert source is not None, "only regular files are opened"
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
def _explain_damage(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise UsageError(
            f"{archive} is truncated, damaged or no archive; fetch it again."
        ) from error
