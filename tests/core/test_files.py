import errno
import gc
import multiprocessing
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bathyscope.core import files
from bathyscope.core.errors import UsageError
from bathyscope.core.files import (
    DiskFull,
    Locked,
    check_location,
    clear_remains,
    hold_lock,
    is_locked,
    is_special,
    make_folder,
    open_appending,
    read_json,
    write_atomic,
    write_folder,
)
from bathyscope.runs import Configuration, MetricsWriter, open_run
from tests.unchecked import printed_by


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_and_nothing_else_is_there(tmp_path):
    path = tmp_path / "note.txt"
    for contents in (b"old", b"new"):
        write_atomic(path, contents)
        assert path.read_bytes() == contents
    assert names(tmp_path) == ["note.txt"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask, "as any file of the user"


def test_the_temporary_name_cannot_be_foreseen_nor_a_link_planted_there(tmp_path, monkeypatch):
    path, victim = tmp_path / "note.txt", tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".note.txt.{os.getpid()}.tmp").symlink_to(victim)  # the name of before
    write_atomic(path, b"new")
    assert victim.read_text() == "precious"
    assert len({files._temporary(path) for _ in range(20)}) == 20
    planted = files._temporary(path)
    planted.symlink_to(victim)
    monkeypatch.setattr(files, "_temporary", lambda path: planted)
    with pytest.raises(UsageError, match="cannot be written: File exists"):
        write_atomic(path, b"newer")
    assert victim.read_text() == "precious"


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("precious")
    link.symlink_to(victim)
    write_atomic(link, b"new")
    assert (victim.read_text(), link.read_bytes(), link.is_symlink()) == ("precious", b"new", False)


def test_two_threads_save_one_file(tmp_path):
    path, failures = tmp_path / "report.html", []

    def save(letter):
        for _ in range(50):
            try:
                write_atomic(path, letter * 4096)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=save, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert path.read_bytes() in (b"a" * 4096, b"b" * 4096, b"c" * 4096)
    assert names(tmp_path) == ["report.html"]


def test_what_a_killed_writer_left_is_cleared_by_the_next(tmp_path):
    path = tmp_path / "note.txt"
    mine = files._temporary(path)
    dead = mine.with_name(mine.name.replace(f".{os.getpid()}.", ".4194305."))
    elsewhere = mine.with_name(".note.txt.0badcafe.4194305.ab.tmp")  # of another machine
    for left in (mine, dead, elsewhere):
        left.touch()
    write_atomic(path, b"")
    assert names(tmp_path) == sorted((mine.name, elsewhere.name, "note.txt"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_one_sentence_and_the_old_file_stays(tmp_path, monkeypatch, code):
    path = tmp_path / "note.txt"
    write_atomic(path, b"old")

    def full(descriptor):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(DiskFull, match=r"no room to write .*note.txt"):
        write_atomic(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["note.txt"]


def test_a_real_limit_of_file_size_is_one_sentence(tmp_path):
    code = f"""
import resource, signal
from pathlib import Path
from bathyscope.core.files import DiskFull, write_atomic
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomic(Path({str(tmp_path)!r}) / "big", b"x" * 5000)
except DiskFull as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "has no room to write" in said.stdout
    assert names(tmp_path) == []


def test_places_that_take_no_files(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "report.html", tmp_path / "file" / "deeper" / "report.html"):
        with pytest.raises(UsageError, match="cannot be written: Not a directory"):
            check_location(path)
    with pytest.raises(UsageError, match="Is a directory"):
        check_location(tmp_path)
    with pytest.raises(UsageError, match="cannot be written"):
        make_folder(tmp_path / "file" / "folder")
    for folder in ("absent", "file"):
        with pytest.raises(UsageError, match="cannot be written"):
            write_atomic(tmp_path / folder / "report.html", b"")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match="cannot be written"):
        make_folder(loop / "runs")


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    final = tmp_path / "set"
    for content in ("old", "new"):
        with write_folder(final) as fresh:
            (fresh / content).write_text(content)
    with pytest.raises(ValueError, match="boom"), write_folder(final) as fresh:
        (fresh / "half").touch()
        raise ValueError("boom")
    assert names(final) == ["new"]
    assert names(tmp_path) == ["set"]


def test_a_folder_that_was_moved_aside_by_a_killed_writer_comes_back(tmp_path):
    final = tmp_path / "set"
    part = files._temporary(final)
    killed = part.with_name(part.name.replace(f".{os.getpid()}.", ".4194305."))
    for kind in ("replaced", "fresh"):
        (killed / kind).mkdir(parents=True)
        (killed / kind / kind).touch()
    clear_remains(final)
    assert (names(tmp_path), names(final)) == (["set"], ["replaced"])
    (killed / "replaced").mkdir(parents=True)  # killed after the new one had taken its place
    clear_remains(final)
    assert (names(tmp_path), names(final)) == (["set"], ["replaced"])


class Walk(Configuration):
    steps: int = 10


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl"])
@pytest.mark.parametrize("kind", ["symbolic", "hard", "dangling"])
def test_a_linked_file_in_a_run_folder_does_not_empty_its_target(tmp_path, name, kind):
    folder, victim = tmp_path / "run", tmp_path / "victim"
    with open_run(folder, Walk()):
        pass
    (folder / name).unlink()
    if kind == "hard":
        victim.write_text("precious\n")
        (folder / name).hardlink_to(victim)
    else:
        if kind == "symbolic":
            victim.write_text("precious\n")
        (folder / name).symlink_to(victim)
    with (
        pytest.raises(UsageError, match=f"{name} is a link to another file"),
        open_run(folder, Walk()),
    ):
        pass
    assert (victim.read_text() if victim.exists() else None) == (
        None if kind == "dangling" else "precious\n"
    )


def test_an_appending_descriptor_appends(tmp_path):
    for text in (b"a", b"b"):
        with os.fdopen(open_appending(tmp_path / "log"), "ab") as file:
            file.write(text)
    assert (tmp_path / "log").read_bytes() == b"ab"


def hold(path, ready, over):
    with hold_lock(path):
        ready.set()
        over.wait(900)


@pytest.fixture
def holder(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, over = context.Event(), context.Event()
    process = context.Process(target=hold, args=(tmp_path / "lock", ready, over))
    process.start()
    assert ready.wait(900)
    yield process, over
    process.kill()
    process.join()


def test_a_lock_is_held_by_one_process_and_freed_by_its_death(tmp_path, holder):
    process, _ = holder
    path = tmp_path / "lock"
    assert is_locked(path)
    with pytest.raises(Locked, match=f"being written by process {process.pid} on"), hold_lock(path):
        pass
    process.kill()
    process.join()
    assert not is_locked(path)
    with hold_lock(path):
        assert is_locked(path)
    assert names(tmp_path) == ["lock"]


def test_who_waits_for_a_lock_is_told_once_and_gets_it(tmp_path, holder):
    _, over = holder
    result = []

    def waited():
        result.append("waiting")
        over.set()

    with hold_lock(tmp_path / "lock", on_wait=waited, keep=False):
        pass
    assert result == ["waiting"]
    assert names(tmp_path) == []


def test_many_processes_that_look_at_a_free_lock_do_not_see_each_other(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.extend(is_locked(path) for _ in range(20)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [False] * 80


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not valid JSON"),
        (b'{"a": 1', "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "nested beyond reason"),
        (b"1" * 10_000, "not valid JSON"),
    ],
)
def test_json_that_is_none_is_one_sentence(tmp_path, text, reason):
    path = tmp_path / "sweep.json"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=reason):
        read_json(path, what="plan")
    path.unlink()
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_json(path)


def test_without_fcntl_all_but_hard_locks_works(tmp_path):
    """Import, diagnose, a saved report and `data list` on a machine like Windows; runs too."""
    code = f"""
import sys
sys.modules["fcntl"] = None
import warnings
warnings.simplefilter("ignore")
from pathlib import Path
import torch
from torch import nn
import bathyscope as bs
from bathyscope import cli
from bathyscope.core.files import hold_lock, is_locked
folder = Path({str(tmp_path)!r})
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
found = bs.diagnose(model, (torch.randn(8, 4), torch.zeros(8, dtype=torch.long)),
                    loss=nn.functional.cross_entropy)
for name in ("report.html", "report.json", "report.png"):
    found.save(folder / name)
with hold_lock(folder / "lock"):
    assert is_locked(folder / "lock")
assert not is_locked(folder / "lock")
sys.argv = ["bathyscope", "data", "list", "--json"]
cli.main()
"""
    assert printed_by(code), "the sets there are"
    assert {"report.html", "report.json", "report.png"} <= set(names(tmp_path))


def test_a_watch_log_that_is_a_link_is_refused(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    (tmp_path / "watch.jsonl").symlink_to(victim)
    with pytest.raises(UsageError, match="is a link"):
        MetricsWriter(tmp_path / "watch.jsonl")
    assert victim.read_text() == "precious\n"


def test_a_path_may_hold_the_letters_of_a_pattern(tmp_path):
    write_atomic(tmp_path / "a[1]*?.txt", b"x")
    assert Path(tmp_path / "a[1]*?.txt").read_bytes() == b"x"


def test_a_fifo_is_written_into_and_stays(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_location(fifo)
        write_atomic(fifo, b"whole")
        assert os.read(reader, 100) == b"whole"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
    assert list(tmp_path.iterdir()) == [fifo]


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no such name of standard output")
@pytest.mark.parametrize("redirected", [True, False], ids=["into a file", "into a pipe"])
def test_standard_output_is_written_into_and_not_replaced(tmp_path, redirected):
    """The code of before put a regular file in the place of /dev/stdout, where it was allowed to.

    A name in /proc stands for it here: nothing can be put in its place.
    """
    code = (
        "from pathlib import Path; from bathyscope.core.files import *;"
        "print('words');"
        "check_location(Path('/proc/self/fd/1')); write_atomic(Path('/proc/self/fd/1'), b'whole')"
    )
    with (tmp_path / "out").open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=file if redirected else subprocess.PIPE,
            check=True,
        )
    said = (tmp_path / "out").read_bytes() if redirected else done.stdout
    assert said == b"words\nwhole"


def test_a_device_is_special_and_a_link_to_it_is_not(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    assert is_special(Path("/dev/null"))
    assert not is_special(link)
    write_atomic(link, b"whole")
    assert link.read_bytes() == b"whole"
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_lock_runs_no_destructor_in_which_ctrl_c_would_be_lost(tmp_path):
    path, called = tmp_path / "lock", []

    def notice(frame, event, argument):
        if event == "call" and frame.f_code.co_name == "__del__":
            called.append(str(getattr(frame.f_locals.get("self"), "lock_file", "")))

    sys.setprofile(notice)
    try:
        with hold_lock(path):
            assert is_locked(path)
        assert not is_locked(path)
        gc.collect()
    finally:
        sys.setprofile(None)
    assert str(path) not in called
