import multiprocessing
import os
import signal
import time

import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.core.files import Locked
from bathyscope.runs import (
    Configuration,
    has_result,
    open_run,
    read_run,
    record_failure,
    run_state,
)


class Walk(Configuration):
    steps: int = 10


def hold(folder, ready):
    with open_run(folder, Walk()) as run:
        run.log({"step": 1})
        run.metrics.flush()
        ready.set()
        time.sleep(900)


@pytest.fixture
def holder(tmp_path):
    """A process that holds a run."""
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=hold, args=(tmp_path / "run", ready))
    process.start()
    assert ready.wait(900)
    yield process
    process.kill()
    process.join()


def test_a_run_tells_its_story(tmp_path):
    with open_run(tmp_path / "run", Walk(), seeds=(3,)) as run:
        run.log({"step": 1, "loss": 0.5})
        assert run_state(run.folder) == "running"
        run.end("finished", result={"loss": float("inf")})
    configuration, manifest, metrics = read_run(tmp_path / "run")
    assert configuration == {"steps": 10}
    assert manifest.status == manifest.ending == "finished"
    assert manifest.result == {"loss": "inf"}
    assert manifest.seeds == [3]
    assert manifest.versions["torch"]
    assert manifest.hardware["threads"] >= 1
    assert manifest.hardware["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert manifest.started <= manifest.ended
    assert metrics == [{"step": 1, "loss": 0.5}]
    assert has_result(tmp_path / "run")


def test_two_processes_never_write_one_run(tmp_path, holder):
    with (
        pytest.raises(Locked, match=f"written by process {holder.pid}"),
        open_run(tmp_path / "run", Walk()),
    ):
        pass
    assert run_state(tmp_path / "run") == "running"


def test_a_killed_holder_leaves_an_interrupted_run_that_can_be_opened(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert run_state(tmp_path / "run") == "interrupted"
    with open_run(tmp_path / "run", Walk()) as run:
        assert run.manifest.starts == 2
        run.end("finished")
    assert read_run(tmp_path / "run")[2] == [{"step": 1}]


def test_another_configuration_is_refused(tmp_path):
    with open_run(tmp_path / "run", Walk()):
        pass
    with (
        pytest.raises(UsageError, match="differs in steps"),
        open_run(tmp_path / "run", Walk(steps=3)),
    ):
        pass


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with (
        pytest.raises(UsageError, match=r"not empty \(it holds thesis.tex\)"),
        open_run(tmp_path, Walk()),
    ):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_reading_what_is_no_run(tmp_path):
    with pytest.raises(UsageError, match="is not a run"):
        read_run(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        read_run(tmp_path / "absent")
    assert run_state(tmp_path) == "absent"


def test_restart_throws_away_what_was_there(tmp_path):
    with open_run(tmp_path / "run", Walk()) as run:
        run.log({"step": 1})
        run.end("finished")
    with open_run(tmp_path / "run", Walk(), restart=True) as run:
        assert run.manifest.starts == 1
    assert read_run(tmp_path / "run")[2] == []


def test_a_failure_keeps_its_traceback_and_is_no_result(tmp_path):
    record_failure(tmp_path / "run", Walk(), "Traceback…\nValueError: boom\n")
    assert run_state(tmp_path / "run") == "failed"
    assert not has_result(tmp_path / "run")
    assert read_run(tmp_path / "run")[1].ending == "failed: ValueError: boom"
    assert "Traceback" in (tmp_path / "run" / "failure.txt").read_text()
    with open_run(tmp_path / "run", Walk()) as run:
        run.end("finished")
    assert not (tmp_path / "run" / "failure.txt").exists()


@pytest.mark.parametrize("deeper", ["", "deeper/still"])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, deeper):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match="cannot be written: Not a directory"),
        open_run(tmp_path / "file" / "runs" / deeper, Walk()),
    ):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("text", ["", "[]", "{", "3", "[" * 100_000])
def test_a_damaged_configuration_is_one_sentence(tmp_path, text):
    with open_run(tmp_path / "run", Walk()):
        pass
    (tmp_path / "run" / "configuration.json").write_text(text)
    with pytest.raises(UsageError, match="is not a run's configuration"):
        read_run(tmp_path / "run")
    with (
        pytest.raises(UsageError, match="is not a run's configuration"),
        open_run(tmp_path / "run", Walk()),
    ):
        pass


def test_damaged_metrics_leave_a_note_in_the_manifest(tmp_path):
    with open_run(tmp_path / "run", Walk()) as run:
        run.log({"step": 1})
    (tmp_path / "run" / "metrics.jsonl").write_bytes(b"\x00\x01\x02\n")
    with open_run(tmp_path / "run", Walk()) as run:
        run.end("finished")
    assert "was damaged at line 1" in read_run(tmp_path / "run")[1].notes[0]


def test_a_full_disk_is_one_sentence_from_the_lock_and_the_tables(tmp_path, monkeypatch):
    import filelock
    import pandas as pd

    from bathyscope.core import files
    from bathyscope.core.files import DiskFull
    from bathyscope.runs import write_table

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(filelock.FileLock, "acquire", full)
    with (
        pytest.raises(DiskFull, match=r"no room to write .*lock"),
        open_run(tmp_path / "r", Walk()),
    ):
        pass
    monkeypatch.undo()
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(DiskFull, match=r"no room to write .*runs.csv"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "runs.csv")
    assert not (tmp_path / "runs.csv").exists()


def test_what_a_killed_writer_left_in_a_run_is_cleared_away(tmp_path):
    with open_run(tmp_path / "run", Walk()):
        pass
    (tmp_path / "run" / ".manifest.json.0badcafe.1.ab.tmp").write_text("half")
    with open_run(tmp_path / "run", Walk()) as run:
        run.end("finished")
    assert not list((tmp_path / "run").glob(".*"))
