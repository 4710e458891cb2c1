"""Command line: draw the cases, run them, report progress, labels and extrapolations."""

import argparse
import sys
from collections import Counter, defaultdict
from statistics import mean

from tools.real_trainings.case import CASES, TABLE, read_cases, write_cases
from tools.real_trainings.draw import SEED, draw_cases
from tools.real_trainings.judge import compare, failure_scores
from tools.real_trainings.rows import make_rows
from tools.real_trainings.runner import jobs, open_jobs, run_jobs
from tools.real_trainings.store import part_files, read_records
from tools.real_trainings.summary import summary

FRACTIONS = (0.04, 0.1, 0.2, 0.4)


def main(arguments: list[str] | None = None) -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m tools.real_trainings", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("draw", help="draw the list of cases; refused once any was run")
    draw.add_argument("--seed", type=int, default=SEED)
    run = commands.add_parser("run", help="run what is not recorded yet")
    run.add_argument("--only", help="a beginning of ids, such as a task")
    run.add_argument("--until", type=float, help="begin no training after this epoch second")
    run.add_argument("--workers", type=int, default=1, choices=[1], help="one process, one thread")
    commands.add_parser("status", help="what is finished, per task, and the CPU time left")
    for name, text in (
        ("summary", "how many trainings of each task train, lag and fail"),
        ("extrapolate", "compare extrapolations of the end, with one task left out"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "--with-held-out", action="store_true", help="for the final score only"
        )
    given = parser.parse_args(arguments)
    COMMANDS[given.command](given)


def _draw(given: argparse.Namespace) -> None:
    if part_files():
        sys.exit(f"{TABLE} holds records of the present list; remove them before drawing another.")
    cases = draw_cases(given.seed)
    write_cases(cases)
    groups = len({case.network_id for case in cases})
    print(f"{len(cases)} cases of {groups} networks written to {CASES.name}")


def _run(given: argparse.Namespace) -> None:
    wanted = jobs(read_cases(), given.only)
    run_jobs(wanted, until=given.until, report=lambda line: print(line, flush=True))


def _status(_: argparse.Namespace) -> None:
    wanted = jobs(read_cases())
    left = Counter(case.task for case, _ in open_jobs(wanted))
    tasks = {case.id: case.task for case, _ in wanted}
    seconds: dict[str, list[float]] = defaultdict(list)
    for record in read_records():
        seconds[tasks[record.id]].append(record.cpu_seconds)
    known = [value for values in seconds.values() for value in values]
    typical = mean(known) if known else 0.0
    total = 0.0
    for task in dict.fromkeys(tasks.values()):
        done = seconds.get(task, [])
        cost = mean(done) if done else typical
        total += cost * left[task]
        print(f"{task:20s} {len(done):4d} of {len(done) + left[task]:4d}, {cost:5.1f} s each")
    print(f"{len(known)} of {len(wanted)} finished; {total / 60:.0f} CPU minutes left")


def _summary(given: argparse.Namespace) -> None:
    print("\n".join(summary(read_cases(), read_records(), with_held_out=given.with_held_out)))


def _extrapolate(given: argparse.Namespace) -> None:
    cases, records = read_cases(), read_records()
    for fraction in FRACTIONS:
        rows = make_rows(cases, records, fraction, with_held_out=given.with_held_out)
        print(f"first {fraction:.0%} of the budget, {len(rows)} trainings")
        for score in compare(rows):
            print(
                f"  {score.method:24s} median error {score.error:.3f}, mean {score.mean_error:.3f}, "
                f"rank {score.rank:.3f}, coverage {score.coverage:.2f}, width {score.width:.3f}"
            )
        scores = ", ".join(f"{name} {value:.3f}" for name, value in failure_scores(rows).items())
        print(f"  AUROC of fails: {scores}")


COMMANDS = {
    "draw": _draw,
    "run": _run,
    "status": _status,
    "summary": _summary,
    "extrapolate": _extrapolate,
}

if __name__ == "__main__":
    main()
