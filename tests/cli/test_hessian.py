"""`bathyscope hessian` as a user calls it."""

import json

import pytest
from typer.testing import CliRunner

from bathyscope.cli import app
from bathyscope.core.errors import UnknownName, UsageError

MODULE = """
import torch
from torch import nn

def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

def wide():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 40), nn.Tanh(), nn.Linear(40, 2))

def loader():
    torch.manual_seed(1)
    return ((torch.randn(n, 3), torch.randint(0, 2, (n,))) for n in (8, 5))
"""


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_json_of_an_own_model_and_loader(own_model):
    text = ["hessian", f"{own_model}:model", "--data", f"{own_model}:loader", "-k", "2"]
    result = CliRunner().invoke(app, [*text, "--by-block", "--json", "-"], catch_exceptions=False)
    assert result.exit_code == 0
    outcome = json.loads(result.stdout)
    assert outcome["num_parameters"] == 26
    assert "13 samples in 2 batches" in outcome["matrix"]
    assert len(outcome["largest"]) == len(outcome["smallest"]) == 2
    assert outcome["negative_index"]["exact"]
    assert [row["block"] for row in outcome["by_block"]["rows"]] == ["0", "2"]
    total = sum(row["trace"] for row in outcome["by_block"]["rows"])
    assert outcome["trace"]["standard_error"] == 0.0
    assert abs(total - outcome["trace"]["value"]) <= 1e-4
    made = outcome["num_products"]
    assert made["matrix"] == 26  # once, for trace, condition number and index together
    assert made.pop("all") == sum(made.values())


def test_a_matrix_too_large_to_form_is_read_from_one_density(own_model, monkeypatch):
    monkeypatch.setattr("bathyscope.curvature.EXACT_UP_TO", 4)
    monkeypatch.setattr("bathyscope.curvature.matrix.EXACT_UP_TO", 4)
    text = ["hessian", f"{own_model}:wide", "--data", f"{own_model}:loader", "--json", "-"]
    text += ["--vectors", "3", "--lanczos", "5"]
    result = json.loads(CliRunner().invoke(app, text, catch_exceptions=False).stdout)
    assert result["trace"]["standard_error"] > 0
    assert {"refused", "lower", "upper"} <= result["condition_number"].keys()
    made = result["num_products"]
    assert (made["matrix"], made["density"]) == (0, 80 + 3 * 5)
    assert made.pop("all") == sum(made.values())


def test_more_eigenvalues_than_there_are(own_model):
    text = ["hessian", f"{own_model}:model", "--data", f"{own_model}:loader", "-k", "27"]
    with pytest.raises(UsageError, match="choose k from 1 to 26"):
        CliRunner().invoke(app, text, catch_exceptions=False)


def test_words_for_people(own_model, tmp_path):
    text = ["hessian", f"{own_model}:model", "--data", f"{own_model}:loader", "--by-block"]
    file = tmp_path / "out.json"
    text += ["--matrix", "gauss-newton", "--json", str(file)]
    result = CliRunner().invoke(app, text, catch_exceptions=False)
    assert result.exit_code == 0
    reported = " ".join(result.stdout.split())
    for expected in ("gauss_newton of Sequential", "(exact)", "kept graph", "repeated eigenvalues"):
        assert expected in reported
    made = json.loads(file.read_text())["num_products"]
    assert f"{made['all']} products: {made['extremes']} for the ends" in reported
    assert f"26 for the whole matrix, {made['by_block']} for the blocks" in reported


def test_unknown_parameters(own_model):
    text = ["hessian", f"{own_model}:model", "--data", f"{own_model}:loader"]
    with pytest.raises(UnknownName, match="parameter"):
        CliRunner().invoke(app, [*text, "--parameters", "nothing"], catch_exceptions=False)
