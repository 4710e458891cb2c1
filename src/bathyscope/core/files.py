"""Files and folders that appear whole or not at all, locks, and JSON that others wrote.

Nothing here follows a link, guesses a free name or loads torch. A full disk, or a place that takes no
files, is one sentence.
"""

import errno
import glob
import json
import os
import secrets
import shutil
import socket
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from bathyscope.core.errors import BathyscopeError, UsageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PATIENCE = 0.3  # seconds; `is_locked` holds a lock for microseconds, and must not refuse a writer
_POLL = 0.01
_ASIDE = "replaced"  # where the old folder lies for the moment between two renames
_OF_SYSTEM = (("dev",), ("proc",))
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class DiskFull(BathyscopeError):
    """A write did not fit; what was on disk before is intact."""


class Locked(BathyscopeError):
    """Another process holds a lock."""


@contextmanager
def explain_write_errors(
    path: Path, *, hint: str = "free some space and try again"
) -> Iterator[None]:
    """Turn the system's errors of writing below a path into one clear sentence.

    Raises:
        DiskFull: the disk, the quota or the limit of a file is reached.
        UsageError: the place takes no files, or a link is in the way.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise DiskFull(
                f"The disk has no room to write {path} ({reason}); what was saved before is "
                f"intact: {hint}."
            ) from error
        if error.errno == errno.ELOOP:
            reason = "a link is in its place; remove it"
        raise UsageError(f"{path} cannot be written: {reason}; give another place.") from error


def check_location(path: Path, *, folder: bool = False) -> None:
    """Raise where no file (or no folder) can be written at a path, and leave nothing behind.

    A computation of minutes asks this before it begins.

    Raises:
        UsageError: something of the other kind is there, or the folder around it takes no files.

    Examples:
        >>> check_location(Path(tempfile.mkdtemp()) / "reports" / "first.html")
    """
    with explain_write_errors(path):
        if not folder and path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not folder and is_special(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        around = (path, *path.absolute().parents) if folder else path.absolute().parents
        with tempfile.TemporaryFile(dir=next(location for location in around if location.exists())):
            pass


def make_folder(folder: Path) -> None:
    """Make a folder that can be written to, with those around it.

    Raises:
        UsageError: it cannot be made, or takes no files.
        DiskFull: there is no room.
    """
    check_location(folder, folder=True)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)


def write_atomic(path: Path, contents: bytes) -> None:
    """Replace the file by these contents, so that a reader or a crash sees the old or the new ones.

    Args:
        path: where to write; its folder must be there. A link at this place is replaced itself; into
            a device, a FIFO or a name of standard output the contents are written.
        contents: the whole file.

    Raises:
        DiskFull: there is no room. The old file is untouched and no temporary file is left.
        UsageError: it cannot be written.

    Examples:
        >>> path = Path(tempfile.mkdtemp()) / "note.txt"
        >>> write_atomic(path, b"whole")
        >>> path.read_bytes()
        b'whole'
    """
    if is_special(path):
        with explain_write_errors(path):
            _write_into(path, contents)
        return
    temporary = _temporary(path)
    try:
        with explain_write_errors(path):
            write_durably(temporary, contents)
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()
    clear_remains(path)


def is_special(path: Path) -> bool:
    """Whether a path is a device, a FIFO, a socket or an open descriptor such as `/dev/stdout`.

    Such a file is written into: put in its place, a regular file would take it from everybody. A link
    outside of the system's own folders is not followed.
    """
    try:
        own = path.lstat().st_mode
        if stat.S_ISLNK(own):
            if path.absolute().parts[1:2] not in _OF_SYSTEM:
                return False
            return not stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False
    return not stat.S_ISREG(own) and not stat.S_ISDIR(own)


def _write_into(path: Path, contents: bytes) -> None:
    """Write to what stands at a path; a standard stream of this process is written as it is open."""
    if path.is_block_device():
        raise OSError(errno.EPERM, "it is a disk")
    there = path.stat()
    for stream in (sys.stdout, sys.stderr):
        with suppress(
            OSError, ValueError, AttributeError
        ):  # a stream that is closed, or not a file
            if os.path.samestat(os.fstat(stream.fileno()), there):
                stream.flush()
                descriptor = os.dup(stream.fileno())
                break
    else:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        _write_all(descriptor, contents)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, contents: bytes) -> None:
    rest = memoryview(contents)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_durably(path: Path, contents: bytes) -> None:
    """Write and fsync a new file; one that is there already, or a link, is an error."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def write_folder(final: Path, *, hint: str = "free some space and try again") -> Iterator[Path]:
    """A new empty folder that takes the place of `final` if the block ends without an error.

    It is a sibling of `final`, so that the move is one rename; its files are synced to disk first.
    After an error nothing is left; what a killed process left, the next call clears away, and a
    folder that it had moved aside comes back (`clear_remains`).

    Raises:
        DiskFull: there is no room.
        UsageError: the folder cannot be written.
    """
    part = _temporary(final)
    with explain_write_errors(final, hint=hint):
        clear_remains(final)
        fresh = part / "fresh"
        fresh.mkdir(parents=True)
        try:
            yield fresh
            _sync(fresh)
            if final.is_symlink() or final.exists():
                final.rename(part / _ASIDE)
            fresh.rename(final)
            sync_folder(final.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def clear_remains(path: Path) -> None:
    """Remove what processes of this machine that are no more left beside a path.

    A folder that `write_folder` had moved aside when it was killed, before the new one took its place,
    is put back.
    """
    for remains in path.parent.glob(f"{glob.escape(_stem(path))}.*.tmp"):
        pid = remains.name.split(".")[-3]
        if pid.isdecimal() and not _is_alive(int(pid)):
            if remains.is_dir() and not remains.is_symlink():
                with suppress(OSError):  # it is not there, or another process was faster
                    if not path.exists():
                        (remains / _ASIDE).rename(path)
                shutil.rmtree(remains, ignore_errors=True)
            else:
                remains.unlink(missing_ok=True)


def open_appending(path: Path) -> int:
    """A descriptor that appends to a file of its own: no link, and no second name of another file.

    Raises:
        UsageError: it is a link, or cannot be written.
    """
    with explain_write_errors(path):
        refuse_link(path)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_LINKS
        return os.open(path, flags, 0o666)


def refuse_link(path: Path) -> None:
    """Raise where a file that is to be changed in place belongs to another place too.

    Raises:
        UsageError: it is a symbolic link, or a hard link to a file with another name.
    """
    try:
        result = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(result.st_mode) or result.st_nlink > 1:
        kind = "a link to another file" if not stat.S_ISDIR(result.st_mode) else "a folder"
        raise UsageError(f"{path} is {kind} and is not written to; remove it, or copy the file.")


@contextmanager
def hold_lock(
    path: Path, *, on_wait: Callable[[], None] | None = None, keep: bool = True
) -> Iterator[None]:
    """Hold a file's exclusive lock, which a process frees however it ends, even by SIGKILL.

    Args:
        path: the lock file, which is created and names its holder.
        on_wait: called once where another process holds it, which is then waited for; without it
            that is an error.
        keep: leave the lock file where it is in the end.

    Raises:
        Locked: another process holds it; the message names the holder.
        UsageError: the lock file is a link, or cannot be written.
        DiskFull: there is no room for it.
    """
    refuse_link(path)
    lock = _Lock(path, timeout=_PATIENCE, mode=0o644)
    try:
        with explain_write_errors(path):
            _acquire(lock, path, on_wait)
        if not isinstance(lock, SoftFileLock):  # which names its holder itself
            _write_holder(path)
        yield
    finally:
        if not keep and lock.is_locked:
            with suppress(OSError):
                path.unlink()  # those who wait see that it is gone, and make another
        lock.release()


class _Lock(FileLock):
    """A lock that is released where it was taken, and needs no destructor.

    In one that Python has to run a Ctrl-C that comes just then is reported as ignored, and lost.
    """

    __del__ = staticmethod(bool)  # type: ignore[assignment]  # no bytecode, and so no look for signals


def _acquire(lock: FileLock, path: Path, on_wait: Callable[[], None] | None) -> None:
    try:
        lock.acquire(poll_interval=_POLL)
    except Timeout:
        if on_wait is None:
            raise Locked(
                f"{path.parent} is being written by {_holder(path)}; wait until it ends, or end it."
            ) from None
        on_wait()
        lock.acquire(timeout=-1, poll_interval=10 * _POLL)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock now; True where that cannot be tried, in a folder to read only.

    Raises:
        UsageError: the lock file is a link.
    """
    refuse_link(path)
    if not path.exists():
        return False
    try:
        with _Lock(path, timeout=5 * _POLL, mode=0o644).acquire(poll_interval=_POLL):
            return False
    except (Timeout, OSError):
        return True


def read_json(path: Path, *, what: str = "file") -> object:
    """What a JSON file holds, whoever wrote it.

    Args:
        path: the file.
        what: it should be, for the message: `report`, `run's configuration`.

    Raises:
        UsageError: it cannot be read, is not JSON, or is nested beyond reason.
    """
    try:
        result: object = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"The {what} {path} cannot be read: {error.strerror}.") from error
    except RecursionError:
        raise UsageError(
            f"{path} is not a {what}: it is nested beyond reason; do not trust it."
        ) from None
    except ValueError as error:  # also bytes that are not text, and numbers without end
        raise UsageError(f"{path} is not a {what}: it is not valid JSON ({error}).") from error
    return result


def sync_folder(folder: Path) -> None:
    """Make renames in the folder survive a power cut."""
    if sys.platform == "win32":
        return  # Windows cannot open a folder
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb+") as file:
                os.fsync(file.fileno())


def _temporary(path: Path) -> Path:
    """A name beside the path that nobody can foresee, and that shows whose it is."""
    return path.with_name(f"{_stem(path)}.{os.getpid()}.{secrets.token_hex(8)}.tmp")


def _stem(path: Path) -> str:
    # the machine's name, for a process of another one cannot be asked whether it lives
    return f".{path.name[:40]}.{zlib.crc32(socket.gethostname().encode()):08x}"


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # asking there would end the process: nothing is cleared
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _write_holder(path: Path) -> None:
    with explain_write_errors(path), suppress(PermissionError):  # Windows locks the bytes as well
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | _NO_LINKS)
        with os.fdopen(descriptor, "wb") as file:
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())


def _holder(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace")[:200].strip() or "another process"
    return "another process"
