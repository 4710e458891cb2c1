"""The run resumes where it was killed, and never leaves half a row."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from tools.real_trainings.case import write_cases
from tools.real_trainings.draw import draw_cases
from tools.real_trainings.record import Record, run_case
from tools.real_trainings.runner import jobs, open_jobs, run_jobs
from tools.real_trainings.store import ROWS_PER_PART, append_record, part_files, read_records

ROOT = Path(__file__).resolve().parents[3]
SHORT = [
    replace(case, budget=20) for case in draw_cases() if case.task in ("table-friedman", "bandit")
][:30]


def _made_up(case, seed: int) -> Record:
    return Record(case.id, seed, 1, "", "", [0], [1.0], [], 1.0, 1.0, None, 1, 0.0, 0.0)


def test_seed_0_of_everything_comes_first() -> None:
    wanted = jobs(SHORT)
    assert [seed for _, seed in wanted] == [0] * len(SHORT) + [1] * len(SHORT)
    assert {case.task for case, _ in jobs(SHORT, only="bandit")} == {"bandit"}


def test_parts_are_filled_and_finished_jobs_skipped(tmp_path: Path) -> None:
    wanted = jobs(SHORT)
    lines: list[str] = []
    assert run_jobs(wanted[:55], tmp_path, report=lines.append, run=_made_up) == 55
    assert [len(p.read_text().splitlines()) for p in part_files(tmp_path)] == [ROWS_PER_PART, 5]
    assert run_jobs(wanted, tmp_path, report=lines.append, run=_made_up) == 5
    assert open_jobs(wanted, tmp_path) == []
    rows = [(r.id, r.seed) for r in read_records(tmp_path)]
    assert rows == [(case.id, seed) for case, seed in wanted]


def test_no_job_begins_after_the_end_of_the_time(tmp_path: Path) -> None:
    assert run_jobs(jobs(SHORT), tmp_path, until=0.0, report=lambda _: None, run=_made_up) == 0


def test_a_torn_line_is_run_again(tmp_path: Path) -> None:
    path = append_record(_made_up(SHORT[0], 0), tmp_path)
    with path.open("a") as file:
        file.write('{"id": "half')
    assert [(r.id, r.seed) for r in read_records(tmp_path)] == [(SHORT[0].id, 0)]
    assert len(open_jobs([(SHORT[0], 0), (SHORT[1], 0)], tmp_path)) == 1


def test_survives_sigkill(tmp_path: Path) -> None:
    """Killed at an arbitrary moment, every row is whole; the resumed run adds what is missing."""
    write_cases(SHORT, tmp_path / "cases.jsonl")
    code = (
        "from pathlib import Path; from tools.real_trainings import case, runner;"
        f"folder = Path({str(tmp_path)!r});"
        "runner.run_jobs(runner.jobs(case.read_cases(folder / 'cases.jsonl')), folder)"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        while process.poll() is None and len(read_records(tmp_path)) < 7:
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    for path in part_files(tmp_path):
        for line in path.read_text().splitlines():
            json.loads(line)
    before = len(read_records(tmp_path))
    assert before >= 7
    wanted = jobs(SHORT)[: before + 3]
    assert run_jobs(wanted, tmp_path, report=lambda _: None) == len(wanted) - before
    rows = [(r.id, r.seed) for r in read_records(tmp_path)]
    assert len(set(rows)) == len(rows) == len(wanted)
    # and what was run before the kill is what would be run now
    assert read_records(tmp_path)[0].losses == run_case(SHORT[0], 0).losses
