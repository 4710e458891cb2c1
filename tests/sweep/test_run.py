"""Sweeps over local processes, threads, submitit: nothing finished is lost or run twice."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest

from bathyscope.core.errors import UsageError
from bathyscope.runs import read_run, run_state, table
from bathyscope.sweep import backends, local, on_executor, read_plan, slurm, sweep
from bathyscope.sweep.backends import Backend

sys.path.insert(0, str(Path(__file__).parent))  # workers inherit it
from jobs import Job, work


def jobs(tmp_path, n, **settings):
    return [Job(number=i, log=str(tmp_path / "log"), **settings) for i in range(n)]


def starts(tmp_path):
    return Counter(int(line) for line in (tmp_path / "log").read_text().split())


@pytest.fixture
def threads():
    with ThreadPoolExecutor(3) as executor:
        yield on_executor(executor)


def test_every_configuration_runs_once_and_never_again(tmp_path, threads):
    seen = []
    some = jobs(tmp_path, 8)
    summary = sweep(
        work,
        [*some, some[0]],
        out=tmp_path / "out",
        backend=threads,
        on_change=lambda t: seen.append(t.done),
    )
    assert summary.ended == {"finished": 8}
    assert seen == list(range(9))
    again = sweep(work, some, out=tmp_path / "out", backend=threads)
    assert (again.skipped, again.ended) == (8, {})
    assert set(starts(tmp_path).values()) == {1}
    result = table(tmp_path / "out")
    assert sorted(result["square"]) == [i**2 for i in range(8)]
    assert len(json.loads((tmp_path / "out" / "sweep.json").read_text())["runs"]) == 8


def test_a_failure_is_recorded_and_the_sweep_goes_on(tmp_path, threads):
    bad = Job(number=99, log=str(tmp_path / "log"), fate="raise")
    all_ = [bad, *jobs(tmp_path, 3), Job(number=50, log=str(tmp_path / "log"), fate="diverge")]
    summary = sweep(work, all_, out=tmp_path / "out", backend=threads)
    assert summary.ended == {"failed": 1, "finished": 3, "diverged": 1}
    folder = tmp_path / "out" / bad.folder_name()
    assert "ArithmeticError: as asked" in (folder / "failure.txt").read_text()
    assert 'raise ArithmeticError("as asked")' in (folder / "failure.txt").read_text()

    again = sweep(work, all_, out=tmp_path / "out", backend=threads)
    assert (again.skipped, again.ended) == (4, {"failed": 1})
    retried = sweep(work, all_, out=tmp_path / "out", backend=threads, retry_failed=True)
    assert (retried.skipped, retried.ended) == (4, {"failed": 1})
    assert starts(tmp_path)[99] == 2


class BreaksAfterTheWork(Executor):
    """Runs at once; the first run ends just before its worker is said to be dead."""

    broken = False

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        fn(*args, **kwargs)
        if self.broken:
            future.set_result(None)
        else:
            BreaksAfterTheWork.broken = True
            future.set_exception(BrokenExecutor())
        return future


def test_a_run_that_ended_just_before_its_worker_died_counts(tmp_path):
    backend = Backend(lambda: nullcontext(BreaksAfterTheWork()), window=2, can_break=True)
    summary = sweep(work, jobs(tmp_path, 4), out=tmp_path / "out", backend=backend)
    assert summary.ended == {"finished": 4}
    assert set(starts(tmp_path).values()) == {1}


def test_no_configuration_is_an_error(tmp_path, threads):
    with pytest.raises(UsageError, match="empty"):
        sweep(work, [], out=tmp_path / "out", backend=threads)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path, threads):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        sweep(work, jobs(tmp_path, 1), out=tmp_path / "file" / "out", backend=threads)


def test_a_worker_that_dies_is_found_out_and_costs_no_other_run(tmp_path):
    fatal = Job(number=99, log=str(tmp_path / "log"), fate="die", seconds=0.3)
    others = jobs(tmp_path, 5, seconds=0.1)
    summary = sweep(work, [others[0], fatal, *others[1:]], out=tmp_path / "out", backend=local(2))
    assert summary.ended == {"failed": 1, "finished": 5}
    ending = read_run(tmp_path / "out" / fatal.folder_name())[1].ending
    assert "killed: signal 9 (SIGKILL), often for want of memory" in ending
    for job in others:
        assert run_state(tmp_path / "out" / job.folder_name()) == "finished"


def test_a_worker_that_crashes_is_not_said_to_be_out_of_memory(tmp_path):
    crashing = Job(number=99, log=str(tmp_path / "log"), fate="crash")
    sweep(work, [crashing], out=tmp_path / "out", backend=local(2))
    ending = read_run(tmp_path / "out" / crashing.folder_name())[1].ending
    assert "crashed: signal 11 (SIGSEGV)" in ending
    assert "memory" not in ending


SWEPT = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from jobs import Job, work
from bathyscope.sweep import backends, local, sweep
backends.PRELOADED = ("bathyscope.runs.folder",)  # these runs train nothing
if __name__ == "__main__":
    tmp = Path({tmp!r})
    jobs = [Job(number=i, log=str(tmp / "log"), seconds=600) for i in range(3)]
    try:
        sweep(work, jobs, out=tmp / "out", backend=local(2))
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.parametrize("early", [True, False])
def test_ctrl_c_ends_the_runs_at_once_and_in_silence(tmp_path, early):
    """While workers are being started, and while they are at work."""
    (tmp_path / "swept.py").write_text(
        SWEPT.format(here=str(Path(__file__).parent), tmp=str(tmp_path))
    )
    process = subprocess.Popen(
        [sys.executable, tmp_path / "swept.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell's background job ignores SIGINT, and so would everything it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    log, plan = tmp_path / "log", tmp_path / "out" / "sweep.json"
    while not (plan.exists() if early else log.exists() and len(log.read_text().split()) == 2):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=900) == ("stopped\n", "")
    for job in jobs(tmp_path, 3, seconds=600):
        assert run_state(tmp_path / "out" / job.folder_name()) in ("absent", "interrupted")


BEFORE_A_WORKER = """
import os, signal
from concurrent.futures import ProcessPoolExecutor
start = ProcessPoolExecutor._adjust_process_count
def interrupted(pool):
    os.killpg(0, signal.SIGINT)
    start(pool)
ProcessPoolExecutor._adjust_process_count = interrupted
"""


def test_ctrl_c_just_before_a_worker_is_there_reaches_it(tmp_path):
    script = BEFORE_A_WORKER + SWEPT.format(here=str(Path(__file__).parent), tmp=str(tmp_path))
    (tmp_path / "swept.py").write_text(script)
    ended = subprocess.run(
        [sys.executable, tmp_path / "swept.py"],
        capture_output=True,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        timeout=500,
    )
    assert (ended.stdout, ended.stderr) == ("stopped\n", "")


def swept(tmp_path, number):
    backends.PRELOADED = (
        "bathyscope.runs.folder",
    )  # in a process of its own; these runs train nothing
    sweep(work, jobs(tmp_path, number, seconds=0.05), out=tmp_path / "out", backend=local(2))


@pytest.mark.parametrize("most", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_killed_sweep_goes_on_where_it_was(tmp_path, most):
    """SIGKILL to the sweep itself, until it is through: its workers die with it."""
    number, kills, context = 30, 0, multiprocessing.get_context("forkserver")
    while True:
        process = context.Process(target=swept, args=(tmp_path, number))
        process.start()
        before = starts(tmp_path).total() if (tmp_path / "log").exists() else 0
        if kills < most:  # kill it when it has got on by some runs
            while process.is_alive() and (
                not (tmp_path / "log").exists() or starts(tmp_path).total() < before + 7
            ):
                time.sleep(0.02)
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        if process.exitcode == 0:
            break
    counted = starts(tmp_path)
    assert set(counted) == set(range(number))
    # only what was in flight, at most two runs a kill, was begun a second time
    assert counted.total() <= number + 2 * kills
    assert set(table(tmp_path / "out")["status"]) == {"finished"}


def test_submitit_in_local_processes(tmp_path, monkeypatch):
    submitit = pytest.importorskip("submitit")
    assert submitit.__version__
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    some = [*jobs(tmp_path, 1), Job(number=9, log=str(tmp_path / "log"), fate="raise")]
    backend = slurm(tmp_path / "queue", cluster="local", timeout_min=2)
    summary = sweep(work, some, out=tmp_path / "out", backend=backend)
    assert summary.ended == {"finished": 1, "failed": 1}


@pytest.mark.parametrize("text", ["", "[]", '{"runs": 3}', '{"runs": [1]}', "{"])
def test_a_damaged_plan_is_one_sentence(tmp_path, text):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(UsageError, match="is not a sweep's plan"):
        read_plan(tmp_path)


def test_a_run_that_failed_before_is_no_result(tmp_path, threads):
    doomed = jobs(tmp_path, 2, fate="raise")
    first = sweep(work, doomed, out=tmp_path / "runs", backend=threads)
    again = sweep(work, doomed, out=tmp_path / "runs", backend=threads)
    for summary in (first, again):
        assert (summary.skipped, summary.ended["failed"], summary.done) == (0, 2, 2)
    assert starts(tmp_path) == Counter({0: 1, 1: 1}), "not tried again unless asked"


def test_the_workers_of_this_machine_share_its_cores(monkeypatch):
    import torch

    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    with local(2).open() as executor:
        assert executor.submit(torch.get_num_threads).result() == 3
