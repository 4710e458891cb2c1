"""Public functions that train, treat, read and write, with good arguments to replace."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import bathyscope as bs
from bathyscope.recorder import autopsy_of_log, autopsy_of_metrics, autopsy_of_weights, read_events
from bathyscope.training import TrainingConfig, evaluate, fit, outcome_of, train
from benchmarks.fuzzing.functions import Functions, sgd_of, small_batch, small_model

_IMAGES = (torch.zeros(6, 1, 8, 8), torch.arange(6) % 3)


@cache
def kept() -> Path:
    """A folder with a run, a report, a recipe and the log of a watched loop; it lives as long as we do."""
    _HELD.append(tempfile.TemporaryDirectory())
    folder = Path(_HELD[-1].name)
    train(
        small_model,
        small_batch(),
        config=TrainingConfig(epochs=1, batch_size=3),
        folder=folder / "run",
    )
    bs.diagnose(small_model(), small_batch()).save(folder / "report.json")
    bs.remedies.Recipe(steps=(bs.remedies.ScaleRate(factor=0.1),)).save(folder / "recipe.json")
    (folder / "grid.toml").write_text("[product]\nlr = [0.1, 0.2]\n")
    model = small_model()
    with bs.watch(model, every=1, log=folder / "log"):
        for _ in range(3):
            F.cross_entropy(model(small_batch()[0]), small_batch()[1]).backward()
    return folder


_HELD: list[tempfile.TemporaryDirectory[str]] = []


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """In a folder of its own, for what a call may write."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield


def _inside(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(**options: Any) -> Any:
        with _elsewhere():
            return function(**options)

    return call


def _treat(**options: Any) -> Any:
    model = options.pop("model")
    result = options.pop("diagnosis")
    return bs.treat(model, result, **options)


def _diagnosed() -> dict[str, Any]:
    model = small_model()
    batch = small_batch()
    # a tenth of what is usual: the call is about its arguments
    return {
        "model": model,
        "diagnosis": bs.diagnose(model, batch),
        "optimizer": sgd_of(model),
        "batches": [batch],
        "allow": "settings",
        "spend": 300,
        "seed": 0,
        "notify": None,
    }


def _apply(**options: Any) -> Any:
    return bs.remedies.apply_(options.pop("model"), options.pop("recipe"), **options)


def _procrustes(**options: Any) -> Any:
    return bs.remedies.procrustes_(options.pop("optimizer"), options.pop("layers"), **options)


def _initialize(**options: Any) -> Any:
    return bs.inits.apply_(options.pop("name"), options.pop("model"), **options)


def _reader(function: Callable[[Any], Any], name: str) -> Any:
    return function, lambda: {next(iter(function.__annotations__)): kept() / name}


def _config() -> TrainingConfig:
    return TrainingConfig(epochs=1, batch_size=3)


def _weights() -> dict[str, torch.Tensor]:
    return small_model().state_dict()


FUNCTIONS: Functions = {
    "treat": (_treat, _diagnosed),
    "forecast": (
        bs.forecast,
        lambda: {
            "model": (m := small_model()),
            "batches": [small_batch()],
            "loss": F.cross_entropy,
            "optimizer": sgd_of(m),
            "budget": 300,
            "spend": 1,
        },
    ),
    "remedies.apply_": (
        _apply,
        lambda: {
            "model": (m := small_model()),
            "recipe": kept() / "recipe.json",
            "optimizer": sgd_of(m),
        },
    ),
    "remedies.procrustes_": (
        _procrustes,
        lambda: {
            "optimizer": sgd_of(m := small_model()),
            "layers": [m[0]],  # type: ignore[index]
            "every": 2,
            "gain": "isotropic",
            "method": "auto",
            "size": None,
        },
    ),
    "inits.apply_": (
        _initialize,
        lambda: {"name": "orthogonal", "model": small_model(), "generator": None},
    ),
    "autopsy_of_log": _reader(autopsy_of_log, "log"),
    "autopsy_of_metrics": (
        autopsy_of_metrics,
        lambda: {"records": [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.4}]},
    ),
    "autopsy_of_weights": (
        autopsy_of_weights,
        lambda: {"before": _weights(), "after": _weights()},
    ),
    "read_events": _reader(read_events, "log"),
    "runs.table": _reader(bs.runs.table, "run"),
    "runs.curves": (bs.runs.curves, lambda: {"folder": kept() / "run", "kind": "step"}),
    "runs.read_run": _reader(bs.runs.read_run, "run"),
    "runs.load_checkpoint": _reader(bs.runs.load_checkpoint, "run"),
    "report.read_report": _reader(bs.report.read_report, "report.json"),
    "report.from_json": (
        bs.report.from_json,
        lambda: {"written": bs.report.to_json(bs.report.read_report(kept() / "report.json"))},
    ),
    "report.write": (
        _inside(bs.report.write),
        lambda: {"report": bs.report.read_report(kept() / "report.json"), "path": "r.json"},
    ),
    "nets.build_for": (
        bs.nets.build_for,
        lambda: {"name": "plain-8", "sample_shape": (1, 8, 8), "num_classes": 3},
    ),
    "nets.skeleton": (bs.nets.skeleton, lambda: {"name": "plain-8"}),
    "data.sequences": (
        bs.data.sequences,
        lambda: {"name": "copy", "context": 8, "num_train": 4, "num_test": 4, "seed": 0},
    ),
    "data.path": (bs.data.path, lambda: {"name": "mnist", "data_dir": kept()}),
    "data.is_present": (bs.data.is_present, lambda: {"name": "mnist", "data_dir": kept()}),
    "data.fetch": (
        _inside(bs.data.fetch),
        lambda: {"name": "mnist", "data_dir": "here", "source": kept() / "run"},
    ),
    "studies.settings_of": (
        lambda **options: bs.studies.settings_of(
            bs.studies.study_of(options.pop("name")), options.pop("preset"), **options
        ),
        lambda: {"name": "shortcut_length.figure_4", "preset": "quick", "seeds": 1},
    ),
    "sweep.backend_of": (
        bs.sweep.backend_of,
        lambda: {"on": "local", "workers": 1, "folder": kept()},
    ),
    "sweep.read_grid": _reader(bs.sweep.read_grid, "grid.toml"),
    "training.fit": (
        fit,
        lambda: {
            "model": small_model(),
            "train": small_batch(),
            "config": _config(),
            "test": small_batch(),
            "loss": None,
            "callbacks": (),
        },
    ),
    "training.train": (
        _inside(train),
        lambda: {
            "build": small_model,
            "data": small_batch(),
            "config": _config(),
            "folder": Path("r"),
            "test": None,
            "loss": None,
            "begun": "resume",
        },
    ),
    "training.evaluate": (
        evaluate,
        lambda: {
            "model": small_model(),
            "examples": small_batch(),
            "loss": F.cross_entropy,
            "batch_size": 4,
        },
    ),
    "training.outcome_of": _reader(outcome_of, "run"),
}
