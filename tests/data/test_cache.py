import errno
import multiprocessing
import os
from pathlib import Path

import pytest

from bathyscope.core import files
from bathyscope.core.errors import UsageError
from bathyscope.core.files import DiskFull
from bathyscope.data import cache
from bathyscope.data.cache import cache_dir, stage


def silent(_):
    pass


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"BATHYSCOPE_DATA": "/data", "XDG_CACHE_HOME": "/xdg"}, "/data"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/bathyscope"),
        ({"BATHYSCOPE_DATA": "", "XDG_CACHE_HOME": ""}, "/home/me/.cache/bathyscope"),
        ({}, "/home/me/.cache/bathyscope"),
    ],
)
def test_the_cache_folder_follows_the_conventions(monkeypatch, variables, expected):
    for name in ("BATHYSCOPE_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(cache.sys, "platform", "linux")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_dir() == Path(expected)


def test_the_cache_folder_of_other_platforms(monkeypatch):
    for name in ("BATHYSCOPE_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(cache.sys, "platform", "darwin")
    assert cache_dir() == Path("/home/me/Library/Caches/bathyscope")
    monkeypatch.setattr(cache.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache_dir() == Path("/local/bathyscope")


def test_the_folder_appears_at_the_end_and_replaces_the_old_one(tmp_path):
    final = tmp_path / "deep" / "set"
    for content in ("old", "new"):
        with stage(final, report=silent) as fresh:
            (fresh / content).write_text(content)
            assert content == "new" or not final.exists()
    assert [path.name for path in final.iterdir()] == ["new"]
    assert list(final.parent.iterdir()) == [final]


@pytest.mark.parametrize("error", [ValueError("boom"), KeyboardInterrupt(), SystemExit(3)])
def test_after_an_error_nothing_remains_and_the_old_folder_is_untouched(tmp_path, error):
    final = tmp_path / "set"
    with stage(final, report=silent) as fresh:
        (fresh / "file").write_text("old")
    with pytest.raises(type(error)), stage(final, report=silent) as fresh:
        (fresh / "file").write_text("half")
        raise error
    assert (final / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [final]


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    dead = files._temporary(tmp_path / "set").name.replace(f".{os.getpid()}.", ".4194305.")
    (tmp_path / dead / "fresh").mkdir(parents=True)
    (tmp_path / ".set.lock").touch()
    other = files._temporary(tmp_path / "set-b")
    other.mkdir()  # of another set
    with stage(tmp_path / "set", report=silent) as fresh:
        (fresh / "file").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, "set"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_sentence(tmp_path, code):
    with (
        pytest.raises(DiskFull, match="no room") as raised,
        stage(tmp_path / "set", report=silent),
    ):
        raise OSError(code, os.strerror(code))
    assert "BATHYSCOPE_DATA" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_while_syncing_is_one_sentence(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with (
        pytest.raises(DiskFull, match="no room"),
        stage(tmp_path / "set", report=silent) as fresh,
    ):
        (fresh / "file").touch()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match="cannot be written"),
        stage(tmp_path / "file" / "set", report=silent),
    ):
        pass
    with pytest.raises(UsageError, match="Input/output"), stage(tmp_path / "set", report=silent):
        raise OSError(errno.EIO, "Input/output error")


def _add_one(final, waiting):
    """Read a number, write it plus one: wrong unless one process at a time is inside."""
    with stage(
        Path(final), report=lambda text: waiting.set() if "Waiting" in text else None
    ) as fresh:
        count = Path(final) / "count"
        number = int(count.read_text()) if count.exists() else 0
        assert waiting.wait(600)  # the first one stays until another has come to the door
        (fresh / "count").write_text(str(number + 1))


def test_processes_wait_for_each_other(tmp_path):
    context = multiprocessing.get_context("fork")
    final, waiting = tmp_path / "cache" / "set", context.Event()
    workers = [context.Process(target=_add_one, args=(final, waiting)) for _ in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 5
    assert (final / "count").read_text() == "5"
    assert waiting.is_set()
    assert list(final.parent.iterdir()) == [final]
