import json
from unittest import mock

import pytest
from typer.testing import CliRunner

from bathyscope.cli import app
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.studies import all_studies, study_of
from tests.papers.tiny import shrink

runner = CliRunner()
NAME = "shortcut_length.figure_4"


def test_lists_every_study():
    shown = runner.invoke(app, ["reproduce", "list"], env={"COLUMNS": "250"})
    assert shown.exit_code == 0
    for name, study in all_studies().items():
        assert name in shown.output
        assert study.title in shown.output


def test_lists_as_json():
    rows = json.loads(runner.invoke(app, ["reproduce", "list", "--json"]).output)
    assert [row["study"] for row in rows] == list(all_studies())
    assert rows[0]["presets"]["printed"]["epochs"] == 200


def test_runs_one_and_writes_the_page(tmp_path, monkeypatch):
    shrink(monkeypatch, NAME)
    text = ["reproduce", NAME, "--out", str(tmp_path), "--workers", "1"]
    shown = runner.invoke(app, text)
    assert shown.exit_code == 0, shown.output
    assert "5 of 5 met" in shown.output
    assert (tmp_path / "index.html").is_file()
    again = json.loads(runner.invoke(app, [*text, "--json"]).output)
    assert again[0]["study"] == NAME
    assert again[0]["checks"][0]["passed"] is True


def test_a_theme_passes_over_studies_without_data(tmp_path, monkeypatch):
    monkeypatch.setenv("BATHYSCOPE_DATA", str(tmp_path / "empty"))
    text = ["reproduce", "all", "--preset", "full", "--out", str(tmp_path)]
    with mock.patch("bathyscope.studies.all_studies", return_value={NAME: study_of(NAME)}):
        shown = runner.invoke(app, text)
    assert shown.exit_code == 0
    assert "bathyscope data fetch mnist" in shown.output


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (["shortcut_length.figur_4"], UnknownName, "shortcut_length.figure_4"),
        ([NAME, "--preset", "print"], UnknownName, "printed"),
        ([NAME, "--preset", "paper"], UnknownName, "printed"),
        ([NAME, "--out", "/dev/null/x"], UsageError, "cannot be written"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(text, error, says):
    shown = runner.invoke(app, ["reproduce", *text])
    assert isinstance(shown.exception, error)
    assert shown.exception.exit_code == 2
    assert says in str(shown.exception)


def test_help_has_an_example():
    assert "Example" in runner.invoke(app, ["reproduce", "--help"]).output
