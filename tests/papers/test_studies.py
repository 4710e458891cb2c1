"""Every study runs from end to end, small: a table, a figure, and checks with numbers."""

import math

import numpy as np
import pytest
import torch

from bathyscope import studies
from bathyscope.papers.shortcut_length.linear_network import linear_network_hessian
from bathyscope.studies.examples import second_moments
from tests.papers.tiny import PRESETS, shrink


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One folder for all, so that shared runs are run once."""
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", PRESETS)
def test_a_study_runs_from_end_to_end(name, store, monkeypatch):
    shrink(monkeypatch, name)
    result = studies.run(name, out=store)
    assert len(result.table) > 0
    assert len(result.checks) > 0
    for check in result.checks:
        assert check.text
        assert check.statement
    assert (store / name / "quick" / "figure.png").stat().st_size > 3000


def test_a_closed_form_stands_behind_figure_4(store, monkeypatch):
    shrink(monkeypatch, "shortcut_length.figure_4")
    table = studies.run("shortcut_length.figure_4", out=store).table
    at_zero = table[table["kind"] == "zero_2"]["condition"]
    assert at_zero.max() == pytest.approx(at_zero.min(), rel=1e-12)
    small = table[table["kind"] == "shortcut_2"]["condition"]
    assert small.to_list() == pytest.approx([at_zero.iloc[0]] * len(small), rel=0.02)


def test_figures_5_and_6_start_at_the_saddle(store, monkeypatch):
    shrink(monkeypatch, "shortcut_length.figure_6")
    table = studies.run("shortcut_length.figure_6", out=store).table
    start = table[(table["kind"] == "shortcut_2") & (table["step"] == 0)]
    assert start["index"].to_list() == pytest.approx([0.5, 0.5], abs=0.02)


def test_figure_10_shows_the_network_and_not_a_sketch(store, monkeypatch):
    """A sample that was led around keeps ρ/2 from the others, and its path ends at the label."""
    shrink(monkeypatch, "shortcut_length.figure_10")
    table = studies.run("shortcut_length.figure_10", out=store).table
    locations = table[["a", "b", "c"]].to_numpy()
    assert np.linalg.norm(locations, axis=1) == pytest.approx(np.ones(len(locations)), abs=1e-9)
    last = table[table["unit"] == table["unit"].max()].sort_values("sample")
    assert last[["a", "b", "c"]].to_numpy() == pytest.approx(np.eye(3), abs=1e-9)
    assert (table["apart"] >= table["rho"] / 2 - 1e-9).all()
    assert (table["apart"] < table["rho"] / 2 + 1e-6).any()


def test_figure_11_has_the_blocks_of_the_closed_form(store, monkeypatch):
    shrink(monkeypatch, "shortcut_length.figure_11")
    result = studies.run("shortcut_length.figure_11", out=store)
    assert [check.passed for check in result.checks] == [True] * 5
    two = result.table[result.table["length"] == 2]
    weights = torch.zeros(2, 2, 10, 10, dtype=torch.float64)
    whole = linear_network_hessian(weights, *second_moments("digits", 10, None))
    for row in two.itertuples():
        block = whole.reshape(4, 100, 4, 100)[row.row, :, row.column]
        assert row.largest == pytest.approx(float(block.abs().max()), abs=1e-12)


def test_conditions_report_every_mode_and_their_greatest(store, monkeypatch):
    shrink(monkeypatch, "singularity.figure_13")
    table = studies.run("singularity.figure_13", out=store).table
    modes = ["samples", "channels", "height", "width"]
    for row in table.itertuples():
        values = [float(getattr(row, mode)) for mode in modes]
        if any(math.isnan(v) for v in values):
            continue
        assert row.largest == max(values)
        assert row.condition == float(row.samples)


def test_a_network_that_was_not_projected_differs_from_the_one_that_was(store, monkeypatch):
    shrink(monkeypatch, "norm_preservation.figure_3")
    table = studies.run("norm_preservation.figure_3", out=store).table
    part = table[(table["part"] == "convolution") & ~table["stem"] & (table["step"] > 0)]
    ratio = part["ratio"].astype(float)
    held = ratio[part["variant"] == "procresnet"]
    free = ratio[part["variant"] == "procresnet_free"]
    assert (held - 1).abs().mean() < (free - 1).abs().mean()
