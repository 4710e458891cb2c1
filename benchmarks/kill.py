"""Runs, sweeps, studies, fetches and logs, killed with SIGKILL at random moments and started again.

Every second kill comes at a random time, the others right before a random change of a file, where
something could be half done. Whatever the moment, no finished result may be lost or computed twice,
the final weights, state, metrics and tables must equal those of the uninterrupted work bit for bit,
and the next start leaves nothing of the killed one behind. A violation is an AssertionError.

    python -m benchmarks kill --kills 1000             # 60 without a number, over the six cases
    python -m benchmarks kill --kills 50 --only log --seed 7
"""

import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import torch

from bathyscope.runs import run_state
from benchmarks.killing import others, trainings
from benchmarks.killing.notes import noted

KILLS = 60
ROUND = 12  # kills until the work may end, is compared, and begins again
_CONTEXT = multiprocessing.get_context("fork")  # of a process with one thread that has all imported
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link")


@dataclass(frozen=True)
class KillCase:
    """Work that can be started again.

    Attributes:
        name: in the output.
        fraction: of the kills; a start of a sweep costs seconds, one of a log a twentieth of one.
        once: does the work below a folder, from wherever it stands.
        compare: raises unless the second folder holds what the uninterrupted first one does.
        look: raises where a kill left something wrong; called after each.
        around: what the work needs beside it, such as a cluster that outlives it.
        warm_up: work in this process before the first fork, so that what is imported late is there.
    """

    name: str
    fraction: int
    once: Callable[[Path], None]
    compare: Callable[[Path, Path], None]
    look: Callable[[Path], None] = lambda root: None
    around: Callable[[Path], AbstractContextManager[None]] = lambda folder: nullcontext()
    warm_up: Callable[[Path], None] = trainings.run_once


CASES = (
    KillCase("run", 8, trainings.run_once, trainings.same_runs),
    KillCase("sweep", 1, trainings.sweep_once, trainings.same_runs),
    KillCase("Dask", 2, trainings.dask_once, trainings.same_runs, around=trainings.cluster),
    KillCase("study", 4, others.study_once, others.same_study, warm_up=others.study_once),
    KillCase(
        "fetch", 5, others.fetch_once, lambda a, b: others.check_set(b), look=others.check_set
    ),
    KillCase(
        "log",
        4,
        others.watch_once,
        others.check_whole_log,
        look=others.check_log,
        warm_up=others.watch_once,
    ),
)


def lines(text: list[str] | None = None) -> Iterator[dict[str, object]]:
    """One line per case."""
    torch.set_num_threads(1)
    text = sys.argv if text is None else text
    kills, seed = int(_option(text, "--kills", str(KILLS))), int(_option(text, "--seed", "0"))
    only = _option(text, "--only", "")
    cases = [case for case in CASES if only in ("", case.name)]
    parts, given = sum(case.fraction for case in cases), 0
    for case in cases:
        wanted = kills * (given + case.fraction) // parts - kills * given // parts
        given += case.fraction
        with tempfile.TemporaryDirectory() as folder, case.around(Path(folder)):
            yield _line(case, Path(folder), wanted, seed=seed)


def _option(text: list[str], name: str, default: str) -> str:
    return text[text.index(name) + 1] if name in text else default


def _line(case: KillCase, folder: Path, wanted: int, *, seed: int) -> dict[str, object]:
    began = time.monotonic()
    whole, warm = folder / "whole", folder / "warm"
    warm.mkdir()
    case.warm_up(warm)
    seconds, changes = start(case, whole).finish()
    moments = random.Random(f"{case.name} {seed}")
    done = rounds = 0
    while done < wanted:
        root = folder / f"broken-{rounds}"
        kills = min(ROUND, wanted - done)
        done += _kill_until_done(
            case, root, kills=kills, seconds=seconds, changes=changes, moments=moments
        )
        case.compare(whole, root)
        shutil.rmtree(root)
        rounds += 1
    return {
        "benchmark": "kill",
        "case": case.name,
        "kills": done,
        "rounds": rounds,
        "lost": 0,
        "identical": True,
        "leftovers": 0,
        "seconds": round(time.monotonic() - began, 1),
    }


def _kill_until_done(
    case: KillCase,
    root: Path,
    *,
    kills: int,
    seconds: float,
    changes: int,
    moments: random.Random,
) -> int:
    """Start, kill at a random moment, start again, until the work ends; return the kills."""
    done = 0
    while True:
        finished = _finished(root)
        if done >= kills:
            started = start(case, root)
        elif moments.random() < 0.5:
            started = start(case, root, until_change=moments.randint(1, max(1, changes // 2)))
        else:
            started = start(case, root)
            started.kill_after(moments.uniform(0, seconds / 2))
        started.process.join()
        ended = started.process.exitcode
        assert ended in (0, -signal.SIGKILL), f"{case.name} failed"
        assert finished <= _finished(root), "a finished result was lost"
        if ended == 0:
            assert not _leftovers(root), f"left behind: {_leftovers(root)}"
            return done
        done += 1
        case.look(root)


@dataclass(frozen=True)
class Started:
    """A work in a process of its own."""

    process: multiprocessing.process.BaseProcess
    root: Path
    starts: int
    changes: "Synchronized[int]"

    def finish(self) -> tuple[float, int]:
        """Wait for the end; how long it took, and how many files were changed."""
        began = time.monotonic()
        self.process.join()
        assert self.process.exitcode == 0, f"the work failed in {self.root}"
        return time.monotonic() - began, self.changes.value

    def kill_after(self, seconds: float) -> None:
        """Kill it that long after it was at work."""
        while self.process.is_alive() and noted(self.root, "at_work").total() == self.starts:
            time.sleep(0.002)
        self.process.join(seconds)
        self.process.kill()


def start(case: KillCase, root: Path, *, until_change: int = 0) -> Started:
    """Begin or continue; the process kills itself right before that change of a file, 0 for never."""
    root.mkdir(exist_ok=True)
    starts, changes = noted(root, "at_work").total(), _CONTEXT.Value("i", 0)
    process = _CONTEXT.Process(target=_work, args=(case.once, root, until_change, changes))
    process.start()
    return Started(process, root, starts, changes)


def _work(
    once: Callable[[Path], None], root: Path, until: int, changes: "Synchronized[int]"
) -> None:
    ours = os.getpid()

    def count(event: str, args: tuple[object, ...]) -> None:
        if os.getpid() == ours and _is_change(event, args, str(root)):
            changes.value += 1
            if changes.value == until:
                os.kill(ours, signal.SIGKILL)

    sys.addaudithook(count)
    once(root)


def _is_change(event: str, args: tuple[object, ...], root: str) -> bool:
    if event == "open":
        path, _, flags = args
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        return bool(writes) and str(path).startswith(root)
    # a tree is removed by names relative to its open folders
    return event in _CHANGES and (str(args[0]).startswith(root) or not str(args[0]).startswith("/"))


def _finished(root: Path) -> set[Path]:
    stores = [store for store in (root / "runs", root / "studies" / "runs") if store.is_dir()]
    return {p for s in stores for p in s.iterdir() if run_state(p) in ("finished", "diverged")}


def _leftovers(root: Path) -> list[Path]:
    return [p for p in root.rglob(".*") if p.suffix in (".tmp", ".lock", ".part")]
