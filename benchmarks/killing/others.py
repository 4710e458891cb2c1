"""A study, a fetch into the cache and the log of a watched loop."""

import hashlib
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

import bathyscope as bs
from bathyscope import data, studies
from bathyscope.core.files import clear_remains
from bathyscope.data.catalog import CATALOG, Entry
from bathyscope.data.checksums import File
from bathyscope.data.sources import local_copy
from bathyscope.papers.shortcut_length.studies.figure_4 import StartPreset
from bathyscope.recorder import autopsy_of_log
from bathyscope.runs import read_metrics
from bathyscope.studies.registry import all_studies
from benchmarks.killing.notes import note, noted

STUDY = "shortcut_length.figure_4"
WATCHED_STEPS = 40
CONTENTS = {f"part{i}": bytes([i]) * (2 << 20) for i in range(3)}
LOGS = ("watch.jsonl", "steps.jsonl", "events.jsonl")


def study_once(root: Path) -> None:
    """Figure 4 at two depths, with its gallery."""
    torch.set_num_threads(1)
    known = all_studies()[STUDY]
    small = {"quick": StartPreset(depths=(2, 4), seeds=2)}
    all_studies()[STUDY] = replace(known, presets={**known.presets, **small})
    note(root, "at_work")
    studies.run(STUDY, out=root / "studies")
    studies.write_gallery(root / "studies")


def same_study(first: Path, second: Path) -> None:
    """The same runs and the same tables."""
    tables = sorted((first / "studies" / STUDY).rglob("*.csv"))
    assert tables
    for path in tables:
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes(), path.name
    runs = [{p.name for p in (root / "studies" / "runs").iterdir()} for root in (first, second)]
    assert runs[0] == runs[1], "the same runs"


def fetch_once(root: Path) -> None:
    """A set of three files into a cache that has it already, from the same place: it is replaced."""
    source = root / "source"
    if not source.is_dir():
        aside = root / "making"
        aside.mkdir(exist_ok=True)
        for name, content in CONTENTS.items():
            (aside / name).write_bytes(content)
        aside.rename(source)
    files = tuple(
        File(name, len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in CONTENTS.items()
    )
    here = local_copy(source, names=list(CONTENTS))
    CATALOG["toy"] = Entry("toy", (1, 1, 1), 2, 1, 1, "here", "none", files=files, sources=(here,))
    note(root, "at_work")
    data.fetch("toy", data_dir=root / "cache")
    note(root, "fetched")
    data.fetch("toy", data_dir=root / "cache", source=source)


def check_set(root: Path) -> None:
    """The set is there as a whole, or not at all; one that was there once is not lost."""
    folder = root / "cache" / "toy"
    clear_remains(folder)
    if folder.exists() or noted(root, "fetched"):
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == CONTENTS, "a half-fetched set"


def watch_once(root: Path) -> None:
    """Forty watched steps, each sampled; the rate is too high at one, so that there is an event."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    note(root, "at_work")
    with bs.watch(model, every=1, log=root / "log"):
        for step in range(WATCHED_STEPS):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 8)).square().mean() * (1e8 if step == 30 else 1.0)
            loss.backward()
            optimizer.step()


def check_log(root: Path) -> None:
    """Every line but a half-written last one is a record, and none that was there before is lost."""
    for name in LOGS:
        read_metrics(root / "log" / name)
        now = root / "log" / name
        lines = now.read_bytes().rpartition(b"\n")[0] if now.exists() else b""
        earlier = root / f"seen-{name}"
        before = earlier.read_bytes() if earlier.exists() else b""
        assert lines.startswith(before), f"records of {name} were lost"
        earlier.write_bytes(lines)


def check_whole_log(first: Path, second: Path) -> None:
    """The last start, which was not killed, left all its steps, and the log can be read."""
    check_log(second)
    whole, broken = (read_metrics(root / "log" / "steps.jsonl") for root in (first, second))
    assert len(whole) == WATCHED_STEPS
    # a log that continues counts its steps on; losses may be NaN, which is not an equal of itself
    result = [[repr(record | {"step": 0}) for record in records] for records in (whole, broken)]
    assert result[1][-WATCHED_STEPS:] == result[0], "the steps of the last start"
    autopsy_of_log(second / "log")
