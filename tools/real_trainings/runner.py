"""Run what is not recorded yet: first seed 0 of every case, then seed 1."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tools.real_trainings.case import TABLE, Case
from tools.real_trainings.record import Record, run_case
from tools.real_trainings.store import append_record, read_records

SEEDS = (0, 1)
Job = tuple[Case, int]


def jobs(cases: Iterable[Case], only: str | None = None) -> list[Job]:
    """Every case with every seed, in the order of the run; `only` is a beginning of ids."""
    chosen = [case for case in cases if only is None or case.id.startswith(only)]
    return [(case, seed) for seed in SEEDS for case in chosen]


def open_jobs(wanted: list[Job], folder: Path = TABLE) -> list[Job]:
    """The jobs that have no record yet."""
    finished = {(record.id, record.seed) for record in read_records(folder)}
    return [(case, seed) for case, seed in wanted if (case.id, seed) not in finished]


def run_jobs(
    wanted: list[Job],
    folder: Path = TABLE,
    *,
    until: float | None = None,
    report: Callable[[str], None] = print,
    run: Callable[[Case, int], Record] = run_case,
) -> int:
    """Run the open jobs one after the other; the number of those that were run.

    Args:
        wanted: the jobs, finished ones among them.
        folder: where the parts are.
        until: no job is begun after this time (seconds since the epoch).
        report: receives a line per job.
        run: runs one job.
    """
    left = open_jobs(wanted, folder)
    report(f"{len(wanted) - len(left)} of {len(wanted)} finished before")
    count = 0
    for case, seed in left:
        if until is not None and time.time() >= until:
            break
        record = run(case, seed)
        append_record(record, folder)
        count += 1
        report(
            f"{count}/{len(left)} {case.id} seed {seed}: {record.steps} steps, "
            f"{record.evaluation[0]} -> {record.evaluation[-1]} "
            f"(constant {record.constant_evaluation:.4g}), {record.cpu_seconds:.1f} s"
        )
    return count
