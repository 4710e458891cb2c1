"""A run and a sweep, killed with SIGKILL at 20 random moments each and resumed until done.

Whatever the moment, no finished result may be lost or computed twice, and the final weights, state
and metrics must equal those of the uninterrupted run bit for bit. A violation is an AssertionError.
"""

import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

from bathyscope import data
from bathyscope.runs import Configuration, has_result, load_checkpoint, run_folders, standing
from bathyscope.sweep import local, sweep
from bathyscope.training import Saving, TrainingConfig, train

KILLS = 20
RUNS = 12


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
    if not has_result(folder):
        _note(folder, "starts")
    digits = data.load("digits", normalise=True, num_train=400, num_test=100)
    train(
        network,
        (digits.train_inputs, digits.train_labels),
        config=config,
        folder=folder,
        test=(digits.test_inputs, digits.test_labels),
        saving=Saving(every_steps=5),
    )
    _note(folder, "results")


def _note(folder: Path, what: str) -> None:
    with (folder.parent.parent / what).open("a") as file:
        file.write(f"{folder.name}\n")


def _noted(root: Path, what: str) -> Counter[str]:
    path = root / what
    return Counter(path.read_text().split()) if path.exists() else Counter()


def run_once(root: Path) -> None:
    config = TrainingConfig(epochs=60, batch_size=32, flip=True, shift=1, lr=0.05)
    work(config, root / "runs" / "run")


def sweep_once(root: Path) -> None:
    base = TrainingConfig(epochs=20, batch_size=32, flip=True, shift=1)
    configs = [
        base.model_copy(update={"lr": lr, "seed": seed})
        for lr in (0.01, 0.05, 1e30)
        for seed in range(RUNS // 3)
    ]
    sweep(work, configs, out=root / "runs", backend=local(2))


def killed_until_done(once: Callable[[Path], None], root: Path, *, within: float) -> int:
    """Start, wait until a run is at work, kill at a random moment, start again; return the kills."""
    moments, kills = random.Random(1), 0
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bathyscope.training", "bathyscope.data", "sklearn.datasets"])
    while True:
        finished_before, starts_before = _finished(root), _noted(root, "starts").total()
        process = context.Process(target=once, args=(root,))
        process.start()
        if kills < KILLS:
            while process.is_alive() and _noted(root, "starts").total() == starts_before:
                time.sleep(0.005)
            process.join(moments.uniform(0, within))
        else:
            process.join()
        if process.is_alive():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        assert finished_before <= _finished(root), "a finished result was lost"
        if process.exitcode == 0:
            return kills


def _finished(root: Path) -> set[str]:
    store = root / "runs"
    if not store.is_dir():
        return set()
    return {p.name for p in store.iterdir() if standing(p) in ("finished", "diverged")}


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


def lines() -> Iterator[dict[str, object]]:
    torch.set_num_threads(1)
    for case, once in (("a run", run_once), (f"a sweep of {RUNS} runs", sweep_once)):
        with tempfile.TemporaryDirectory() as folder:
            whole, broken = Path(folder) / "whole", Path(folder) / "broken"
            began = time.monotonic()
            whole.mkdir()
            once(whole)
            # so short that it is not done before it was killed often enough
            within = (time.monotonic() - began) / KILLS
            broken.mkdir()
            kills = killed_until_done(once, broken, within=within)
            compared = run_folders(whole / "runs")
            for run in compared:
                identical(run, broken / "runs" / run.name)
            assert max(_noted(broken, "results").values()) == 1, "a finished run ran again"
            yield {
                "benchmark": "kill",
                "case": case,
                "kills": kills,
                "starts": _noted(broken, "starts").total(),
                "runs": len(compared),
                "identical": True,
                "seconds": round(time.monotonic() - began, 1),
            }
