"""A run, a sweep in local processes and one on a Dask cluster that outlives its clients."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import torch
from torch import nn

from bathyscope.runs import Configuration, has_result, load_checkpoint, run_folders
from bathyscope.sweep import Backend, dask, local, sweep
from bathyscope.training import Callback, LoopView, Record, Saving, TrainingConfig, train
from benchmarks.killing.notes import note, noted

RUNS = 6


def network() -> nn.Module:
    """Batch statistics and random numbers: what is easily lost when a run continues."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


class NoStepAfterTheEnd(Callback):
    """Raises where a run that has its result is trained again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_step(self, loop: LoopView, record: Record) -> None:
        """Look whether the result is there."""
        assert not has_result(self.folder), "a finished run ran again"


def work(config: Configuration, folder: Path) -> None:
    """One run; every result is noted outside its folder."""
    assert isinstance(config, TrainingConfig)
    torch.set_num_threads(1)
    had_result = has_result(folder)
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(160, 1, 8, 8, generator=draw)
    labels = torch.randint(0, 10, (160,), generator=draw)
    train(
        network,
        (inputs[:128], labels[:128]),
        config=config,
        folder=folder,
        test=(inputs[128:], labels[128:]),
        saving=Saving(every_steps=3),
        callbacks=[NoStepAfterTheEnd(folder)],
    )
    if not had_result:
        note(folder.parent.parent, "results", folder.name)


def run_once(root: Path) -> None:
    """A run of thirty steps with ten checkpoints."""
    note(root, "at_work")
    work(TrainingConfig(epochs=8, batch_size=32, flip=True, shift=1, lr=0.05), root / "runs" / "r")


def _sweep_once(root: Path, backend: Backend) -> None:
    base = TrainingConfig(epochs=4, batch_size=32, flip=True, shift=1)
    configs = [
        base.model_copy(update={"lr": lr, "seed": seed})
        for lr in (0.01, 0.05, 1e30)
        for seed in range(RUNS // 3)
    ]
    note(root, "at_work")
    sweep(work, configs, out=root / "runs", backend=backend)
    while not all(has_result(folder) for folder in run_folders(root / "runs")):
        time.sleep(0.05)  # a worker of the killed client may still be at one
        sweep(work, configs, out=root / "runs", backend=backend)


def sweep_once(root: Path) -> None:
    """Six runs in two processes; two of them diverge."""
    _sweep_once(root, local(2))


def dask_once(root: Path) -> None:
    """The same on the cluster."""
    _sweep_once(root, dask((root.parent / "cluster").read_text()))


@contextmanager
def cluster(folder: Path) -> Iterator[None]:
    """A Dask cluster in a process of its own, so that the one who forks and kills has one thread."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=_serve, args=(folder / "cluster", stop))
    process.start()
    while not (folder / "cluster").exists():
        assert process.is_alive(), "the Dask cluster does not start"
        time.sleep(0.05)
    try:
        yield
    finally:
        stop.set()
        process.join()


def _serve(address: Path, stop: Event) -> None:
    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as here:
        aside = address.with_suffix(".new")
        aside.write_text(here.scheduler_address.removeprefix("tcp://"))
        aside.rename(address)
        stop.wait()


def same_runs(first: Path, second: Path) -> None:
    """Weights, state and metrics of every run, bit for bit, and each result made once."""
    folders = run_folders(first / "runs")
    assert folders
    for run in folders:
        _compare(run, second / "runs" / run.name)
    assert max(noted(second, "results").values(), default=0) <= 1, "a finished run ran again"


def _compare(first: Path, second: Path) -> None:
    a, b = load_checkpoint(first), load_checkpoint(second)
    assert a is not None
    assert b is not None
    assert _is_same(a.weights, b.weights), "weights"
    assert _is_same(a.state, b.state), "state"
    for name in ("metrics.jsonl", "weights.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def _is_same(a: object, b: object) -> bool:
    """Bit for bit: the running statistics of a run that diverged may be NaN, and must be that NaN."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes()
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_is_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return repr(a) == repr(b)
