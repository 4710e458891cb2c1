"""Running a study: same numbers, nothing twice, on after a kill, and clear refusals."""

import json
import multiprocessing
import time
from pathlib import Path

import pandas as pd
import pytest

from bathyscope import studies
from bathyscope.core.errors import BathyscopeError, UnknownName, UsageError
from bathyscope.papers.shortcut_length.studies.figure_4 import StartCondition
from bathyscope.runs import read_run, run_folders
from tests.papers.tiny import PRESETS, shrink


def starts(out):
    return {run.name: read_run(run)[1].starts for run in run_folders(Path(out) / "runs")}


def finished(runs):
    """Names of the runs whose manifest says so; it is the last that a run writes."""
    manifests = {
        path.parent.name: json.loads(path.read_text()) for path in runs.glob("*/manifest.json")
    }
    return {name for name, manifest in manifests.items() if manifest["status"] == "finished"}


def test_two_runs_of_one_preset_and_seed_give_the_same_numbers(tmp_path, monkeypatch):
    name = "shortcut_length.figure_5"
    shrink(monkeypatch, name)
    one, two = (studies.run(name, out=tmp_path / part) for part in "ab")
    pd.testing.assert_frame_equal(one.table, two.table, check_exact=True)
    assert one.checks == two.checks


def test_what_was_run_is_not_run_again_and_studies_share_it(tmp_path, monkeypatch):
    shrink(monkeypatch, "shortcut_length.figure_5", "shortcut_length.figure_6")
    first = studies.run("shortcut_length.figure_5", out=tmp_path)
    before = starts(tmp_path)
    studies.run("shortcut_length.figure_5", out=tmp_path)
    other = studies.run("shortcut_length.figure_6", out=tmp_path)
    assert starts(tmp_path) == before
    assert other.provenance.num_runs == first.provenance.num_runs == len(before) == 6


def test_a_result_carries_table_figure_checks_and_provenance(tmp_path, monkeypatch):
    name = "shortcut_length.figure_4"
    shrink(monkeypatch, name)
    result = studies.run(name, out=tmp_path)
    folder = tmp_path / name / "quick"
    assert (folder / "figure.png").stat().st_size > 5000
    assert len(pd.read_csv(folder / "table.csv")) == len(result.table) == 18
    kept = json.loads((folder / "result.json").read_text())
    assert kept["preset"] == "quick"
    assert kept["provenance"]["seeds"] == [0, 1]
    assert kept["provenance"]["settings"]["depths"] == [2, 4]
    assert "torch" in kept["provenance"]["versions"]
    assert [check["passed"] for check in kept["checks"]] == [c.passed for c in result.checks]


def test_seeds_replace_the_preset_s(tmp_path, monkeypatch):
    name = "shortcut_length.figure_4"
    shrink(monkeypatch, name)
    assert studies.run(name, out=tmp_path, seeds=1).provenance.seeds == (0,)
    with pytest.raises(UsageError, match="at least 1, but 0"):
        studies.run(name, out=tmp_path, seeds=0)


def test_workers_give_the_same_numbers(tmp_path, monkeypatch):
    name = "shortcut_length.figure_4"
    shrink(monkeypatch, name)
    here = studies.run(name, out=tmp_path / "here")
    there = studies.run(name, out=tmp_path / "there", workers=2)
    pd.testing.assert_frame_equal(here.table, there.table, check_exact=True)


def test_a_killed_study_goes_on(tmp_path, monkeypatch):
    name = "shortcut_length.figure_3"
    shrink(monkeypatch, name)
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=studies.run, args=(name,), kwargs={"out": tmp_path / "cut"})
    child.start()
    runs = tmp_path / "cut" / "runs"
    while not finished(runs):
        assert child.is_alive() or finished(runs)
        time.sleep(0.02)
    child.kill()
    child.join()
    done = finished(runs)
    resumed = studies.run(name, out=tmp_path / "cut")
    whole = studies.run(name, out=tmp_path / "whole")
    pd.testing.assert_frame_equal(resumed.table, whole.table, check_exact=True)
    assert all(count == 1 for run, count in starts(tmp_path / "cut").items() if run in done)


def test_an_unknown_study_names_the_nearest():
    with pytest.raises(UnknownName, match=r"shortcut_length\.figure_4"):
        studies.run("shortcut_length.figure4")


def test_an_unknown_preset_names_the_others(tmp_path):
    with pytest.raises(UnknownName, match="quick, full, printed"):
        studies.run("shortcut_length.figure_4", preset="quik", out=tmp_path)


def test_missing_data_says_what_to_fetch(tmp_path, monkeypatch):
    monkeypatch.setenv("BATHYSCOPE_DATA", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match="bathyscope data fetch mnist"):
        studies.run("shortcut_length.figure_4", preset="full", out=tmp_path)
    assert studies.missing_data("shortcut_length.figure_4", "full") == ["mnist"]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        studies.run("shortcut_length.figure_4", out=tmp_path / "file")


def test_a_run_that_fails_is_named(tmp_path, monkeypatch):
    name = "shortcut_length.figure_4"
    shrink(monkeypatch, name)

    def broken(self):
        raise RuntimeError("no such matrix")

    monkeypatch.setattr(StartCondition, "rows", broken)
    with pytest.raises(BathyscopeError, match="no such matrix"):
        studies.run(name, out=tmp_path)
    monkeypatch.undo()
    shrink(monkeypatch, name)
    assert len(studies.run(name, out=tmp_path).table) == 18, "what failed is tried again"


def test_every_tiny_preset_belongs_to_a_study():
    assert set(PRESETS) <= set(studies.names())
