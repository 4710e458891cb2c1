"""Where fetched sets lie, and how files get there whole or not at all."""

import errno
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bathyscope.core.errors import BathyscopeError, UsageError

Report = Callable[[str], None]


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


@contextmanager
def staged(final: Path, *, report: Report) -> Iterator[Path]:
    """A new empty folder that takes the place of `final` if the block ends without an error.

    The folder is a sibling of `final`, so that the move is one rename; its files are synced to disk
    first. After an error nothing is left. A process that was killed leaves its folder, which the
    next call clears away. Only one process at a time stages the same folder; others wait.

    Args:
        final: the folder to make or to replace.
        report: is told when another process has to be waited for.

    Raises:
        UsageError: the disk is full, or the folder cannot be written.
    """
    with _failures_reported(final.parent):
        final.parent.mkdir(parents=True, exist_ok=True)
        with _locked(final.parent / f".{final.name}.lock", report=report) as is_alone:
            if is_alone:
                for remains in final.parent.glob(f".{final.name}=*.part"):
                    shutil.rmtree(remains, ignore_errors=True)
            part = Path(tempfile.mkdtemp(".part", f".{final.name}=", final.parent))
            try:
                fresh = part / "fresh"
                fresh.mkdir()
                yield fresh
                _sync(fresh)
                if final.exists():
                    final.rename(part / "replaced")
                fresh.rename(final)
                _sync_folder(final.parent)
            finally:
                shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _failures_reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UsageError(
                f"The disk of {folder} is full ({error.strerror}); nothing was kept: free some "
                f"space, or set BATHYSCOPE_DATA to a folder on another disk."
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise UsageError(
                f"{folder} cannot be written ({error.strerror}); "
                f"set BATHYSCOPE_DATA to a folder of yours."
            ) from error
        raise BathyscopeError(f"Writing below {folder} failed: {error}.") from error


@contextmanager
def _locked(path: Path, *, report: Report) -> Iterator[bool]:
    """Hold a lock file while the block runs; yields whether this platform could lock."""
    try:
        import fcntl
    except ImportError:
        # Without a lock two processes may fetch the same set, and the last rename wins: wasteful,
        # but whole.
        yield False
        return
    waited = False
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The holder before us may have removed the file between our opening and locking it.
            if os.path.samestat(os.fstat(handle), os.stat(path)):  # noqa: PTH116
                break
            os.close(handle)
        except (BlockingIOError, FileNotFoundError):
            os.close(handle)
            if not waited:
                report(f"Waiting for another process that fetches into {path.parent}.")
                waited = True
            time.sleep(0.1)
    try:
        yield True
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(handle)


def _sync(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            _sync_folder(path)
        else:
            with path.open("rb+") as handle:
                os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return  # Windows cannot open a folder
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
