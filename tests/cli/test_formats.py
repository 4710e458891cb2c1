"""`--format`, `--quiet` and `--fail-on`: what other tools read, validated against what they ask for.

`test_official_schemas.py` has the whole schemas. Those here are subsets of SARIF 2.1.0 and of JUnit's as
Jenkins and GitHub read them, written out for the objects that are used: their required members, types and
values, and no member that the standard lacks.
"""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import jsonschema
import pytest
from typer.testing import CliRunner

from bathyscope.cli import app
from bathyscope.core.records import Block, Severity
from bathyscope.report.ci_formats import (
    by_depth,
    github_annotations,
    junit_xml,
    sarif_log,
    sentence,
    step_summary,
)
from bathyscope.report.numbers import counts
from tests.cli.some_findings import RESULT, finding, root

EFFECTS = "It brings about: exploding-activations (a, b, c and 3 more), high-rate."


def _object(required, **properties):
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
MESSAGE = _object(["text"], text=TEXT)
URI = {"type": "string", "format": "uri"}
SARIF = _object(
    ["version", "runs"],
    **{"$schema": URI},
    version={"enum": ["2.1.0"]},
    runs={
        "type": "array",
        "items": _object(
            ["tool", "results"],
            tool=_object(
                ["driver"],
                driver=_object(
                    ["name"],
                    name=TEXT,
                    version=TEXT,
                    informationUri=URI,
                    rules={
                        "type": "array",
                        "uniqueItems": True,
                        "items": _object(["id"], id=TEXT, shortDescription=MESSAGE, helpUri=URI),
                    },
                ),
            ),
            results={
                "type": "array",
                "items": _object(
                    ["message"],
                    ruleId=TEXT,
                    ruleIndex={"type": "integer", "minimum": -1},
                    level={"enum": ["none", "note", "warning", "error"]},
                    message=MESSAGE,
                    suppressions={
                        "type": "array",
                        "items": _object(
                            ["kind"], kind={"enum": ["inSource", "external"]}, justification=TEXT
                        ),
                    },
                    partialFingerprints={"type": "object", "additionalProperties": TEXT},
                    locations={
                        "type": "array",
                        "items": _object(
                            [],
                            logicalLocations={
                                "type": "array",
                                "uniqueItems": True,
                                "items": _object([], fullyQualifiedName=TEXT, kind=TEXT),
                            },
                            physicalLocation=_object(
                                ["artifactLocation"],
                                artifactLocation=_object([], uri=TEXT),
                                region=_object([], startLine={"type": "integer", "minimum": 1}),
                            ),
                        ),
                    },
                ),
            },
        ),
    },
)


def check_junit(text):
    """The elements and attributes that JUnit's readers know, with counts that add up."""
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    (suite,) = root
    assert suite.tag == "testsuite"
    assert suite.keys() == ["name", "tests", "failures", "errors", "skipped", "time"]
    assert {case.tag for case in suite} == {"testcase"}
    assert all({"name", "classname", "time"} == set(case.keys()) for case in suite)
    children = [child for case in suite for child in case]
    assert {child.tag for child in children} <= {"failure", "skipped", "system-out"}
    assert all({"message", "type"} == set(c.keys()) for c in children if c.tag == "failure")
    names = [case.get("name") for case in suite]
    assert len(names) == len(set(names)) == int(suite.get("tests"))
    for tag, count in (("failure", "failures"), ("skipped", "skipped")):
        assert sum(c.tag == tag for c in children) == int(suite.get(count))
    return suite


def test_sarif():
    log = json.loads(json.dumps(sarif_log(RESULT)))
    jsonschema.validate(log, SARIF, format_checker=jsonschema.FormatChecker())
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["exploding-gradient", "high-rate", "few-samples"]
    assert [r["level"] for r in run["results"]] == ["error", "error", "warning", "note"]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])
    assert EFFECTS in run["results"][0]["message"]["text"]
    broken = log | {"runs": [run | {"result": []}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SARIF)


def test_junit():
    suite = check_junit(junit_xml(RESULT))
    failed = {c.get("name"): c.find("failure") for c in suite if c.find("failure") is not None}
    assert list(failed) == ["exploding-gradient"]
    assert EFFECTS in failed["exploding-gradient"].text
    assert "body.7" in failed["exploding-gradient"].text
    skipped = {
        c.get("name"): c.find("skipped").get("message")
        for c in suite
        if c.find("skipped") is not None
    }
    assert skipped["exploding-activations"] == "follows from exploding-gradient"
    assert set(skipped) == {"exploding-activations", "update-size"}


@pytest.mark.parametrize(
    ("severity", "codes"),
    [
        ("warning", {"exploding-gradient", "high-rate"}),
        ("note", {"exploding-gradient", "high-rate", "few-samples"}),
    ],
)
def test_fail_on_decides_what_junit_calls_a_failure(severity, codes):
    suite = check_junit(junit_xml(replace(RESULT, fail_on=Severity(severity))))
    assert {c.get("name") for c in suite if c.find("failure") is not None} == codes


def test_counts_are_of_root_causes_with_their_effects_apart():
    assert counts(RESULT.findings) == "2 problems, 1 warning, 1 note (and 2 that follow from them)"
    assert counts(RESULT.findings[:1]) == "1 problem (and 2 that follow from it)"
    assert counts(RESULT.findings[1:2]) == "1 problem"


def test_blocks_are_named_in_the_order_of_the_forward_pass():
    labels = ("stem", "a", "b", "c", "d")
    rows = [Block(index=at, name=name, end=name, kind="Linear") for at, name in enumerate(labels)]
    shuffled = finding("high-rate", Severity.NOTE, blocks=("d", "b", "stem", "a"))
    (one,) = by_depth([root("x", Severity.NOTE, [shuffled], blocks=("c", "stem"))], rows)
    assert one.blocks == ("stem", "c")
    assert "high-rate (stem, a, b and 1 more)" in sentence(one)


def test_annotations_are_one_line_each_and_no_title_begins_another_command():
    lines = github_annotations(RESULT).split("\n")
    assert len(lines) == 4
    for line in lines:
        assert re.fullmatch(r"::(error|warning|notice) file=mine\.py,line=3,title=[^:,]*::.*", line)
    assert "%0A" in lines[-1]
    assert EFFECTS in lines[0]


def test_the_summary_is_a_table_that_no_title_breaks():
    rows = [line for line in step_summary(RESULT).splitlines() if line.startswith("|")]
    assert len(rows) == 6
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)
    assert "exploding-activations (a, b, c and 3 more), high-rate |" in rows[2]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A network of two findings in a module of its own, and the folder it is in."""
    text = """
import torch
from torch import nn

def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    model[0].bias.data.fill_(-100.0)
    return model

def batch():
    return torch.randn(32, 8), torch.arange(32) % 3
"""
    name = f"formats_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return name


def called(mine, *more):
    given = ["diagnose", f"{mine}:network", "--data", f"{mine}:batch", *more]
    return CliRunner().invoke(app, given)


def test_the_formats_on_the_command_line(mine, tmp_path, monkeypatch):
    log = json.loads(called(mine, "--format", "sarif").stdout)
    jsonschema.validate(log, SARIF)
    where = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == f"{mine}.py"
    assert where["region"]["startLine"] == 5
    check_junit(called(mine, "--format", "junit").stdout)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    shown = called(mine, "--format", "github").stdout
    assert shown.startswith("::error file=")
    assert "| problem |" in (tmp_path / "summary.md").read_text()
    assert json.loads(called(mine, "--format", "json").stdout)["findings"]


def test_what_is_silenced_is_said_with_its_reason(mine):
    given = ("--silence", "dead-units=meant for now", "--silence", "labels")
    (result, *_) = [
        one
        for one in json.loads(called(mine, *given, "--format", "sarif").stdout)["runs"][0][
            "results"
        ]
        if "suppressions" in one
    ]
    assert result["ruleId"] == "dead-units"
    assert result["suppressions"] == [{"kind": "external", "justification": "meant for now"}]
    done = called(mine, *given, "--fail-on", "problem")
    assert "not checked: dead-units (silenced: meant for now)" in done.stdout


def test_out_writes_what_other_tools_read(mine, tmp_path):
    files = [tmp_path / "found.sarif", tmp_path / "found.xml"]
    called(mine, *(word for file in files for word in ("--out", str(file))))
    jsonschema.validate(json.loads(files[0].read_text()), SARIF)
    check_junit(files[1].read_text())


def test_the_gate_says_so_last_and_quiet_says_nothing_else(mine, tmp_path):
    done = called(mine, "--fail-on", "problem", "--quiet", "--out", str(tmp_path / "r.json"))
    assert done.exit_code == 3
    assert done.stdout == ""
    shown = r"FAILED: \d+ problems?( \(and \d+ that follows? from (it|them)\))?"
    assert re.fullmatch(shown, done.stderr.strip())
    assert (tmp_path / "r.json").exists()
    loud = called(mine, "--fail-on", "problem")
    assert loud.stderr.strip().splitlines()[-1].startswith("FAILED: ")
    assert "Assumed: sgd at learning rate 0.1" in loud.stdout
    assert "Assumed" not in called(mine, "--lr", "0.01").stdout


def test_a_forecast_is_written_too(mine, tmp_path):
    page = tmp_path / "forecast.html"
    given = ["forecast", f"{mine}:network", "--data", f"{mine}:batch", "--out", str(page)]
    done = CliRunner().invoke(app, [*given, "--quiet", "--spend", "8"])
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert "<" in page.read_text()
