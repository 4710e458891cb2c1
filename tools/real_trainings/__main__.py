"""Command line: draw the cases, run them, look ahead, report labels, fit the model and score it."""

import argparse
import io
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from tools.real_trainings.case import CASES, TABLE, read_cases, write_cases
from tools.real_trainings.draw import SEED, draw_cases
from tools.real_trainings.runner import jobs, open_jobs, run_jobs
from tools.real_trainings.store import part_files, read_records
from tools.real_trainings.summary import summary

if TYPE_CHECKING:
    from tools.real_trainings.examples import Example


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
    command = commands.add_parser("summary", help="how many of each task train, lag and fail")
    command.add_argument("--with-held-out", action="store_true", help="for the final score only")
    commands.add_parser("observe", help="take the look-ahead of every training, as `forecast` does")
    commands.add_parser("fit", help="fit the model of the package on the table")
    score = commands.add_parser("score", help="the forecast with one task, kind, family left out")
    which = score.add_mutually_exclusive_group()
    which.add_argument("--held-out", action="store_true", help="once, at the end")
    which.add_argument("--larger", action="store_true", help="only networks larger than the fitted")
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


def _examples(*, held_out: bool = False) -> "list[Example]":
    from tools.real_trainings.examples import make_examples, read_observed

    return make_examples(read_cases(), read_records(), read_observed(), held_out=held_out)


def _observe(_: argparse.Namespace) -> None:
    from tools.real_trainings.observe import observe_all

    print(f"{observe_all()} look-aheads in the table")


def _fit(_: argparse.Namespace) -> None:
    import numpy as np

    import bathyscope.foresight
    from bathyscope.core.files import write_atomic
    from bathyscope.foresight.curve_model import FILE, arrays_of
    from tools.real_trainings.fit import fit

    model = fit(_examples())
    written = io.BytesIO()
    np.savez_compressed(written, **arrays_of(model))  # type: ignore[arg-type]
    path = Path(bathyscope.foresight.__file__).parent / FILE
    write_atomic(path, written.getvalue())
    print(
        f"{model.about['trainings']} trainings, {len(written.getvalue()) // 1024} KiB in {path.name}"
    )


def _score(given: argparse.Namespace) -> None:
    from tools.real_trainings.score import score, score_held_out, score_larger

    examples = _examples()
    if given.larger:
        print(json.dumps(score_larger(examples), indent=1, ensure_ascii=False))
        return
    result = [score(examples, key) for key in ("task", "kind", "family")]
    if given.held_out:
        result.append(score_held_out(examples, _examples(held_out=True)))
    print(json.dumps(result, indent=1, ensure_ascii=False))


COMMANDS = {
    "draw": _draw,
    "run": _run,
    "status": _status,
    "summary": _summary,
    "observe": _observe,
    "fit": _fit,
    "score": _score,
}

if __name__ == "__main__":
    main()
