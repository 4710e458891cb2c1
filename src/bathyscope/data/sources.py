"""The ways to get the files of a set: its official address, or a copy on this machine.

A source puts files into an empty folder or raises `SourceFailed`. It is not trusted: the checksums
of the set decide whether what it brought is right.
"""

import gzip
import shutil
import ssl
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.data.archives import MOST_BYTES, copy_limited, unpack
from bathyscope.data.checksums import WrongChecksum, check_digest

Progress = Callable[[str, int, int | None], None]
"""Reported the name of a download, the bytes so far, and the bytes in all where that is known."""

_TIMEOUT = 10.0  # seconds without a byte
# Not OSError as such: a full disk is one too, and no other source would help.
_NETWORK_FAILURES = (
    urllib.error.URLError,
    HTTPException,
    ssl.SSLError,
    TimeoutError,
    ConnectionError,
)


class SourceFailed(BathyscopeError):
    """A source could not bring its files; the next one may."""


@dataclass(frozen=True)
class Source:
    """A way to get the files of a set.

    Attributes:
        label: what it is called in messages.
        obtain: puts the files into a folder.
    """

    label: str
    obtain: Callable[[Path, Progress], None]


def gzipped_files(address: str, names: Sequence[str]) -> Source:
    """Files `NAME.gz` below an address, unpacked to `NAME`."""

    def obtain(folder: Path, progress: Progress) -> None:
        for name in names:
            packed = folder / f"{name}.gz"
            download(address + packed.name, packed, progress=progress)
            gunzip(packed, folder / name)
            packed.unlink()

    return Source(address, obtain)


def archive(address: str, *, md5: str, names: Sequence[str] = ()) -> Source:
    """An archive at an address, of which the named files are kept, or all of them for none named."""

    def obtain(folder: Path, progress: Progress) -> None:
        packed = folder / address.rpartition("/")[2]
        download(address, packed, progress=progress)
        check_digest(packed, "md5", md5)
        unpack_named(packed, folder, names=names)
        packed.unlink()

    return Source(address, obtain)


def local_copy(
    path: Path, *, names: Sequence[str], md5: str = "", most_bytes: int = MOST_BYTES
) -> Source:
    """A folder or an archive on this machine, with the named files, plain or gzipped, anywhere in it.

    Args:
        path: the folder or archive; it is left as it is.
        names: the files to keep, all of them for none named.
        md5: of the archive, where the files have no checksums of their own.
        most_bytes: that the archive may unpack to.
    """

    def obtain(folder: Path, progress: Progress) -> None:
        if path.is_dir():
            if names:
                _take(path, folder, names=names, label=path, most_bytes=most_bytes)
            else:
                _copy_all(path, folder)
            return
        if not path.is_file():
            raise UsageError(f"There is no file or folder {path}.")
        if md5:
            check_digest(path, "md5", md5)
        unpack_named(path, folder, names=names, most_bytes=most_bytes)

    return Source(str(path), obtain)


def unpack_named(
    packed: Path, folder: Path, *, names: Sequence[str], most_bytes: int = MOST_BYTES
) -> None:
    """Unpack an archive and keep the named files, wherever in it they lie, or all for none named."""
    inside = folder / "unpacked"
    unpack(packed, inside, most_bytes=most_bytes)
    if names:
        _take(inside, folder, names=names, label=packed, most_bytes=most_bytes)
        shutil.rmtree(inside)
    else:
        # Out of the way first: the archive may hold something called like the folder itself.
        aside = inside.rename(folder / ".unpacked")
        for path in list(aside.iterdir()):
            path.rename(folder / path.name)
        aside.rmdir()


def _take(
    origin: Path, folder: Path, *, names: Sequence[str], label: Path, most_bytes: int
) -> None:
    """Copy the named files, plain or gzipped, from anywhere below a folder."""
    for name in names:
        result = sorted([*origin.rglob(name), *origin.rglob(f"{name}.gz")])
        if not result:
            raise UsageError(f"{label} holds no {name}, plain or gzipped.")
        if result[0].suffix == ".gz":
            gunzip(result[0], folder / name, most_bytes=most_bytes)
        else:
            shutil.copyfile(result[0], folder / name)


def _copy_all(origin: Path, folder: Path) -> None:
    # Not shutil.copytree, which would hide a full disk among errors of other kinds.
    for path in sorted(origin.rglob("*")):
        if path.is_file():
            target = folder / path.relative_to(origin)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def gunzip(packed: Path, target: Path, *, most_bytes: int = MOST_BYTES) -> None:
    """Unpack one gzipped file; `WrongChecksum` if its own checksum says that it is damaged."""
    try:
        with gzip.open(packed) as source, target.open("wb") as sink:
            copy_limited(source, sink, most_bytes, packed)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise WrongChecksum(f"{packed.name} is truncated or damaged") from error


def download(address: str, target: Path, *, progress: Progress) -> None:
    """Write what is at an address into a file.

    Raises:
        SourceFailed: it cannot be reached, or the connection ended early.
    """
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT) as response:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            with target.open("wb") as sink:
                done = 0
                while chunk := response.read(1 << 18):
                    sink.write(chunk)
                    done += len(chunk)
                    progress(target.name, done, total)
    except _NETWORK_FAILURES as error:
        raise SourceFailed(str(getattr(error, "reason", error))) from error
    if total is not None and done != total:
        raise SourceFailed(f"the connection ended after {done} of {total} bytes")
