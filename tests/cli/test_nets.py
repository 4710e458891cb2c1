import json

import pytest
from typer.testing import CliRunner

from bathyscope import nets
from bathyscope.cli import app
from bathyscope.core.errors import UsageError

runner = CliRunner()


def test_lists_every_family():
    shown = runner.invoke(app, ["nets"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for family in nets.families().values():
        assert family.pattern in shown.output
        assert family.summary in shown.output


def test_families_as_json():
    rows = json.loads(runner.invoke(app, ["nets", "--json"]).output)
    assert [row["family"] for row in rows] == list(nets.families())
    resnet = next(row for row in rows if row["family"] == "resnet")
    assert resnet["parameters"] == 269_722
    assert resnet["depths"] == "N = 6n + 2"
    assert "shortcut" in resnet["options"]


def test_one_network_as_json():
    text = [
        "nets",
        "procresnet-22",
        "--classes",
        "100",
        "--size",
        "16",
        "--channels",
        "1",
        "--json",
    ]
    summary = json.loads(runner.invoke(app, text).output)
    assert [block["name"] for block in summary["blocks"]] == [f"blocks.{i}" for i in range(6)]
    assert summary["blocks"][0]["in"] == [1, 16, 16]
    assert summary["blocks"][-1]["out"] == [256, 4, 4]
    assert len(summary["transition_layers"]) == 3
    expected = nets.skeleton("procresnet-22", num_classes=100, in_channels=1)
    assert summary["parameters"] == sum(p.numel() for p in expected.parameters())


@pytest.mark.parametrize(
    "name", ["linear-aggregated-4", "nshortcut-2-3", "densenet-10", "wrn-10-1"]
)
def test_one_network_as_a_table(name):
    shown = runner.invoke(app, ["nets", name])
    assert shown.exit_code == 0, shown.output
    assert "blocks.0" in shown.output


@pytest.mark.parametrize("name", ["resnet-57", "resnt-56"])
def test_a_wrong_name_is_a_usage_error(name):
    shown = runner.invoke(app, ["nets", name])
    assert isinstance(shown.exception, UsageError)
    assert shown.exception.exit_code == 2
    assert "resnet-56" in str(shown.exception)


def test_help_has_an_example():
    assert "Example" in runner.invoke(app, ["nets", "--help"]).output
