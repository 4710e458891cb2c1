"""Runs, sweeps, studies, fetches and logs, killed with SIGKILL at random moments and started again.

Whatever the moment, no finished result may be lost or computed twice, the final weights, state,
metrics and tables must equal those of the uninterrupted work bit for bit, and the next start leaves
nothing of the killed one behind. A violation is an AssertionError.

    python -m benchmarks kill --kills 1000      # 60 without a number, evenly over the six cases
"""

import hashlib
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bathyscope import data, studies
from bathyscope.data.catalog import CATALOG, Entry
from bathyscope.data.checksums import File
from bathyscope.data.sources import local_copy
from bathyscope.papers.shortcut_length.studies.figure_4 import StartPreset
from bathyscope.runs import (
    Configuration,
    has_result,
    load_checkpoint,
    read_metrics,
    run_folders,
    standing,
)
from bathyscope.studies.registry import all_studies
from bathyscope.sweep import Backend, dask, local, sweep
from bathyscope.training import Saving, TrainingConfig, train

KILLS = 60
RUNS = 6
STUDY = "shortcut_length.figure_4"
WATCHED_STEPS = 150


@dataclass(frozen=True)
class KillCase:
    """Work that can be started again.

    Attributes:
        name: in the output.
        once: does the work below a folder, from wherever it stands.
        compare: raises unless the second folder holds what the uninterrupted first one does.
        look: raises where a kill left something wrong; called after each.
        around: what the work needs beside it, such as a cluster that outlives it.
    """

    name: str
    once: Callable[[Path], None]
    compare: Callable[[Path, Path], None]
    look: Callable[[Path], None] = lambda root: None
    around: Callable[[Path], AbstractContextManager[Any]] = lambda folder: nullcontext()


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def work(config: Configuration, folder: Path) -> None:
    """One run; every start and every result is noted outside its folder, a line each."""
    assert isinstance(config, TrainingConfig)
    torch.set_num_threads(1)
    root = folder.parent.parent
    if not has_result(folder):
        _note(root, "starts", folder.name)
    digits = data.load("digits", normalise=True, num_train=400, num_test=100)
    train(
        network,
        (digits.train_inputs, digits.train_labels),
        config=config,
        folder=folder,
        test=(digits.test_inputs, digits.test_labels),
        saving=Saving(every_steps=5),
    )
    _note(root, "results", folder.name)


def _note(root: Path, what: str, text: str = "x") -> None:
    with (root / what).open("a") as file:
        file.write(f"{text}\n")


def _noted(root: Path, what: str) -> Counter[str]:
    path = root / what
    return Counter(path.read_text().split()) if path.exists() else Counter()


def run_once(root: Path) -> None:
    _note(root, "at_work")
    work(TrainingConfig(epochs=20, batch_size=32, flip=True, shift=1, lr=0.05), root / "runs" / "r")


def _sweep_once(root: Path, backend: Backend) -> None:
    base = TrainingConfig(epochs=8, batch_size=32, flip=True, shift=1)
    configs = [
        base.model_copy(update={"lr": lr, "seed": seed})
        for lr in (0.01, 0.05, 1e30)
        for seed in range(RUNS // 3)
    ]
    _note(root, "at_work")
    sweep(work, configs, out=root / "runs", backend=backend)
    while not all(has_result(folder) for folder in run_folders(root / "runs")):
        time.sleep(0.05)  # a worker of the killed client may still be at one
        sweep(work, configs, out=root / "runs", backend=backend)


def sweep_once(root: Path) -> None:
    _sweep_once(root, local(2))


def dask_once(root: Path) -> None:
    _sweep_once(root, dask((root.parent / "cluster").read_text()))


def _cluster(folder: Path) -> AbstractContextManager[Any]:
    import distributed

    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    (folder / "cluster").write_text(cluster.scheduler_address.removeprefix("tcp://"))
    return cluster


def study_once(root: Path) -> None:
    torch.set_num_threads(1)
    known = all_studies()[STUDY]
    small = {"quick": StartPreset(depths=(2, 4), seeds=2)}
    all_studies()[STUDY] = replace(known, presets={**known.presets, **small})
    _note(root, "at_work")
    studies.run(STUDY, out=root / "studies")
    studies.write_gallery(root / "studies")


def same_study(first: Path, second: Path) -> None:
    for path in sorted((first / "studies" / STUDY).rglob("*.csv")):
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes(), path.name
    runs = [{p.name for p in (root / "studies" / "runs").iterdir()} for root in (first, second)]
    assert runs[0] == runs[1], "the same runs"


CONTENTS = {f"part{i}": bytes([i]) * (24 << 20) for i in range(3)}


def fetch_once(root: Path) -> None:
    files = tuple(
        File(name, len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in CONTENTS.items()
    )
    source = root / "source"
    if not source.is_dir():
        aside = root / "making"
        aside.mkdir(exist_ok=True)
        for name, content in CONTENTS.items():
            (aside / name).write_bytes(content)
        aside.rename(source)
    here = local_copy(source, names=list(CONTENTS))
    CATALOG["toy"] = Entry("toy", (1, 1, 1), 2, 1, 1, "here", "none", files=files, sources=(here,))
    _note(root, "at_work")
    data.fetch("toy", data_dir=root / "cache")


def fetch_is_whole(root: Path) -> None:
    """The set is there as a whole, or not at all."""
    folder = root / "cache" / "toy"
    if folder.exists():
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == CONTENTS, "a half-fetched set"


def watch_once(root: Path) -> None:
    import bathyscope as bs

    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _note(root, "at_work")
    with bs.watch(model, every=1, log=root / "log"):
        for _ in range(WATCHED_STEPS):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
    _note(root, "done")


def log_is_whole(root: Path) -> None:
    """Every line but a half-written last one is a record, and none that was there before is lost."""
    count = len(read_metrics(root / "log" / "watch.jsonl"))
    before = max((int(n) for n in _noted(root, "seen")), default=0)
    assert count >= before, "records of the log were lost"
    _note(root, "seen", str(count))


def same_runs(first: Path, second: Path) -> None:
    for run in run_folders(first / "runs"):
        identical(run, second / "runs" / run.name)
    assert max(_noted(second, "results").values()) == 1, "a finished run ran again"


def same(a: object, b: object) -> bool:
    """Bit for bit: the running statistics of a run that diverged may be NaN, and must be that NaN."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes()
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def identical(first: Path, second: Path) -> None:
    a, b = load_checkpoint(first), load_checkpoint(second)
    assert a is not None
    assert b is not None
    assert same(a.weights, b.weights), "weights"
    assert same(a.state, b.state), "state"
    for name in ("metrics.jsonl", "weights.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def _finished(root: Path) -> set[Path]:
    stores = [store for store in (root / "runs", root / "studies" / "runs") if store.is_dir()]
    return {p for s in stores for p in s.iterdir() if standing(p) in ("finished", "diverged")}


def _leftovers(root: Path) -> list[Path]:
    return [p for p in root.rglob(".*") if p.suffix in (".tmp", ".lock", ".part")]


def _server() -> ForkServerContext:
    """Processes start from one that has imported everything: in milliseconds, many times over."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.kill", "bathyscope.diagnosis", "sklearn.datasets"])
    return context


def kill_until_done(case: KillCase, root: Path, *, kills: int, within: float, seed: int) -> int:
    """Start, wait until it is at work, kill at a random moment, start again; return the kills."""
    moments, done = random.Random(seed), 0
    while True:
        finished, starts = _finished(root), _noted(root, "at_work").total()
        process = _server().Process(target=case.once, args=(root,))
        process.start()
        if done < kills:
            while process.is_alive() and _noted(root, "at_work").total() == starts:
                time.sleep(0.002)
            process.join(moments.uniform(0, within))
        else:
            process.join()
        if process.is_alive():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            done += 1
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL), f"{case.name} failed"
        assert finished <= _finished(root), "a finished result was lost"
        if process.exitcode == 0:
            assert not _leftovers(root), f"left behind: {_leftovers(root)}"
            return done
        case.look(root)


CASES = (
    KillCase("a run", run_once, same_runs),
    KillCase(f"a sweep of {RUNS} runs", sweep_once, same_runs),
    KillCase(f"a Dask sweep of {RUNS} runs", dask_once, same_runs, around=_cluster),
    KillCase("a study", study_once, same_study),
    KillCase("a fetch", fetch_once, lambda a, b: fetch_is_whole(b), look=fetch_is_whole),
    KillCase("a watch log", watch_once, lambda a, b: log_is_whole(b), look=log_is_whole),
)


def lines(words: list[str] | None = None) -> Iterator[dict[str, object]]:
    torch.set_num_threads(1)
    words = sys.argv if words is None else words
    kills = int(words[words.index("--kills") + 1]) if "--kills" in words else KILLS
    for at, case in enumerate(CASES):
        wanted = kills * (at + 1) // len(CASES) - kills * at // len(CASES)
        with tempfile.TemporaryDirectory() as folder, case.around(Path(folder)):
            yield _line(case, Path(folder), wanted)


def _work_seconds(case: KillCase, folder: Path) -> float:
    """How long the work takes once everything is imported."""
    again = folder / "again"
    again.mkdir()
    began = time.monotonic()
    process = _server().Process(target=case.once, args=(again,))
    process.start()
    process.join()
    return time.monotonic() - began


def _line(case: KillCase, folder: Path, wanted: int) -> dict[str, object]:
    began = time.monotonic()
    whole = folder / "whole"
    whole.mkdir()
    process = _server().Process(target=case.once, args=(whole,))
    process.start()
    process.join()
    assert process.exitcode == 0, f"{case.name} failed"
    within = _work_seconds(case, folder) / 4
    done = rounds = 0
    while done < wanted:
        root = folder / f"broken-{rounds}"
        root.mkdir()
        done += kill_until_done(case, root, kills=wanted - done, within=within, seed=rounds)
        case.compare(whole, root)
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
