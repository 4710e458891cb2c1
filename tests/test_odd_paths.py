"""Every call that takes a path, given a loop of links, a name too long, or a place below a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope import training
from bathyscope.core.errors import BathyscopeError
from bathyscope.recorder import autopsy_of_log, read_events
from bathyscope.sweep import on_executor, sweep
from bathyscope.training import TrainingConfig
from tests.unchecked import unchecked


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    """Everything here is given wrong things on purpose."""
    with unchecked():
        yield


BATCH = (torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3)


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def watch(location):
    model = mlp()
    with bs.watch(model, every=1, log=location):
        F.cross_entropy(model(BATCH[0]), BATCH[1]).backward()


def report_of_watch(location):
    model = mlp()
    with bs.watch(model, every=1) as seen:
        F.cross_entropy(model(BATCH[0]), BATCH[1]).backward()
    seen.report(location.with_suffix(".html"))


def run(location):
    training.train(mlp, BATCH, config=TrainingConfig(epochs=1), folder=location)


CALLS = {
    "Diagnosis.save": lambda p: bs.diagnose(mlp(), BATCH).save(p.with_suffix(".json")),
    "read_report": bs.report.read_report,
    "Recipe.save": lambda p: bs.remedies.Recipe().save(p),
    "Recipe.load": bs.remedies.Recipe.load,
    "apply_": lambda p: bs.remedies.apply_(mlp(), p),
    "watch": watch,
    "Watch.report": report_of_watch,
    "autopsy_of_log": autopsy_of_log,
    "read_events": read_events,
    "train": run,
    "outcome_of": training.outcome_of,
    "runs.table": bs.runs.table,
    "runs.curves": bs.runs.curves,
    "runs.read_run": bs.runs.read_run,
    "runs.write_table": lambda p: bs.runs.write_table(
        bs.diagnose(mlp(), BATCH).table, p.with_suffix(".csv")
    ),
    "data.fetch, from": lambda p: bs.data.fetch("mnist", data_dir=p.parent, source=p),
    "data.fetch, to": lambda p: bs.data.fetch("mnist", data_dir=p, source=p.parent),
    "data.path": lambda p: bs.data.path("mnist", data_dir=p),
    "data.load, folder": lambda p: bs.data.load(f"folder:{p}"),
    "data.load, npz": lambda p: bs.data.load(f"npz:{p}"),
    "data.load, place": lambda p: bs.data.load("mnist", data_dir=p),
    "studies.run": lambda p: bs.studies.run("shortcut_length.figure_4", out=p),
    "studies.write_gallery": bs.studies.write_gallery,
    "read_grid": bs.sweep.read_grid,
    "sweep": lambda p: sweep(print, [TrainingConfig()], out=p, backend=on_executor(None)),
}


# a link at the place of a new file is replaced itself
REPLACE = ("Watch.report", "Diagnosis.save", "runs.write_table", "Recipe.save")
CASES = [
    (name, kind)
    for name in CALLS
    for kind in ("loop", "below a loop", "long", "below a file")
    if kind != "loop" or name not in REPLACE
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_an_odd_path_is_one_sentence(tmp_path, monkeypatch, name, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("precious")
    locations = {
        "loop": "loop",
        "below a loop": "loop/a",
        "long": "x" * 300,
        "below a file": "file/a",
    }
    with pytest.raises(BathyscopeError) as raised:
        CALLS[name](tmp_path / locations[kind])
    text = str(raised.value)
    assert text.strip()
    assert "\n" not in text
    assert len(text) < 900
    assert (tmp_path / "file").read_text() == "precious"
    assert not Path("x" * 200).exists()
