"""Checks, results and what is published of them."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from bathyscope import studies
from bathyscope.core.errors import UsageError
from bathyscope.core.records import Assumption, ClaimCheck, Verdict
from bathyscope.studies.drawing import panels
from bathyscope.studies.gallery import read_result, write_gallery
from bathyscope.studies.publishing import (
    publish,
    publish_claims,
    published_claims,
    read_published,
)
from bathyscope.studies.record import Check, Preset, Provenance, StudyResult
from bathyscope.studies.runner import _provenance, _title, settings_of, study_of
from tests.unchecked import unchecked

CHECKS = (
    Check("passed", True, 0.123456),
    Check("missed", False, 7),
    Check("reported", None, "as it is"),
    Check("met too", True, 12345.678),
)


def result(**changes):
    given = {
        "study": "shortcut_length.figure_4",
        "title": "A title",
        "preset": "quick",
        "table": pd.DataFrame({"x": [1.0, 2.0]}),
        "checks": CHECKS,
        "notes": ("a note",),
        "provenance": Provenance(
            settings={"depths": [2, 4]},
            seeds=(0, 3),
            num_runs=6,
            seconds=99.0,
            cpu_seconds=12.6,
            versions={"torch": "9.9"},
            hardware=({"cores": 2},),
            commits=("abc",),
        ),
        "draw": lambda: panels()[0],
    }
    return StudyResult(**given | changes)


def test_values_are_told_to_four_digits():
    assert [check.text for check in CHECKS] == ["0.1235", "7", "as it is", "1.235e+04"]


def test_what_is_reported_is_neither_met_nor_missed():
    assert (result().num_passed, result().num_judged) == (2, 3)


def test_the_gallery_counts_what_was_met_and_what_was_not(tmp_path):
    result().save(tmp_path / "shortcut_length.figure_4" / "quick")
    html = write_gallery(tmp_path).read_text()
    assert "1 study: 2 parts of the papers' shape were met, 1 were not." in html
    for mark in ('class="passed"><b title="passed">✓', 'class="missed"><b title="not met">✗'):
        assert mark in html
    assert html.count('<b title="reported">·</b>reported: <strong>as it is</strong>') == 1
    assert "6 runs, seeds 0, 3, 13 CPU seconds; torch 9.9." in html


def test_a_result_without_its_figure_is_one_sentence(tmp_path):
    folder = tmp_path / "shortcut_length.figure_4" / "quick"
    result().save(folder)
    (folder / "figure.png").unlink()
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        write_gallery(tmp_path)


@pytest.mark.parametrize("name", ["seconds", "cpu_seconds"])
def test_seconds_that_are_no_number_are_refused(tmp_path, name):
    written = result().as_dict()
    written["provenance"][name] = float("inf")
    (tmp_path / "result.json").write_text(json.dumps(written).replace("Infinity", "1e999"))
    with pytest.raises(UsageError, match=rf"provenance\.{name}"):
        read_result(tmp_path / "result.json")


def test_what_is_published_is_read_by_study_and_preset(tmp_path):
    publish(result(), tmp_path / "new")
    publish(result(preset="full", checks=()), tmp_path / "new")
    outcome = read_published(tmp_path / "new")["shortcut_length.figure_4"]
    assert set(outcome) == {"quick", "full"}
    assert [check["passed"] for check in outcome["quick"]["checks"]] == [True, False, None, True]
    assert outcome["full"]["checks"] == []
    assert (tmp_path / "new" / "shortcut_length.figure_4.full.png").stat().st_size > 0


def claim(name, **changes):
    given = {
        "claim": name,
        "verdict": Verdict.HOLDS,
        "assumptions": (Assumption(statement="a", holds=True, value=0.123456789),),
        "numbers": {"relations": {"left": 1.000049, "right": float("inf"), "few": (1e-9, 2)}},
        "statement": "left ≤ right",
        "settings": {"seed": 3},
    }
    return ClaimCheck(**given | changes)


def test_published_verdicts_are_rounded_and_those_of_other_claims_stay(tmp_path):
    publish_claims([claim("a.one"), claim("a.two")], tmp_path / "new", commit="abc")
    publish_claims([claim("a.two", verdict=Verdict.VIOLATED)], tmp_path / "new", commit="def")
    outcome = published_claims(tmp_path / "new")
    assert {name: row["verdict"] for name, row in outcome.items()} == {
        "a.one": "holds",
        "a.two": "violated",
    }
    assert (outcome["a.one"]["commit"], outcome["a.two"]["commit"]) == ("abc", "def")
    assert outcome["a.one"]["seed"] == 3
    assert outcome["a.one"]["assumptions"][0]["value"] == 0.1235
    assert outcome["a.one"]["relations"] == {"left": 1.0, "right": "inf", "few": [1e-9, 2]}
    assert published_claims(tmp_path / "nowhere") == {}


class Also(Preset):
    also: str | None = None


@unchecked()
def test_a_title_names_the_data_that_stand_in():
    paper = Also(data="cifar-10", also="mnist")
    study = SimpleNamespace(title="T", original=paper)
    assert _title(study, paper) == "T"
    assert _title(study, Also(data="mnist")) == "T"
    assert _title(study, Also(data="digits", also="cifar-10")) == "T [substitute: digits]"
    assert Also(data="digits").data_names() == {"digits"}
    assert _title(SimpleNamespace(title="T", original=None), paper) == "T"


def test_seeds_of_a_preset_are_its_own_unless_given():
    study = study_of("shortcut_length.figure_4")
    own = study.presets["quick"].seeds
    assert settings_of(study, "quick").seeds == own
    assert settings_of(study, "quick", seeds=own + 4).seeds == own + 4
    assert study.presets["quick"].seeds == own
    assert studies.names().count("shortcut_length.figure_4") == 1


@unchecked()
def test_provenance_adds_seconds_and_tells_machines_once():
    def manifest(seconds, cores, commit):
        return SimpleNamespace(
            seconds=seconds,
            cpu_seconds=seconds / 2,
            hardware={"cores": cores},
            commit=commit,
            versions={"torch": "1"},
        )

    tasks = [SimpleNamespace(seeds_used=lambda n=n: (n, 0)) for n in (2, 1, 2)]
    manifests = [manifest(1.04, 2, "b"), manifest(2.0, 2, "a"), manifest(3.0, 4, "b")]
    outcome = _provenance(Preset(), tasks, manifests)
    assert outcome.seeds == (0, 1, 2)
    assert outcome.num_runs == 3
    assert (outcome.seconds, outcome.cpu_seconds) == (6.0, 3.0)
    assert outcome.hardware == ({"cores": 2}, {"cores": 4})
    assert outcome.commits == ("a", "b")
