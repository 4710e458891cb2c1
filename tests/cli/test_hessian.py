"""`bathyscope hessian` as a user calls it."""

import json

import pytest
from typer.testing import CliRunner

from bathyscope.cli import app
from bathyscope.core.errors import UnknownName

MODULE = """
import torch
from torch import nn

def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

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
    words = ["hessian", f"{own_model}:model", "--data", f"{own_model}:loader", "-k", "2"]
    result = CliRunner().invoke(app, [*words, "--by-block", "--json", "-"], catch_exceptions=False)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["num_parameters"] == 26
    assert "13 samples in 2 batches" in found["matrix"]
    assert len(found["largest"]) == len(found["smallest"]) == 2
    assert found["negative_index"]["exact"]
    assert [row["block"] for row in found["by_block"]["rows"]] == ["0", "2"]
    total = sum(row["trace"] for row in found["by_block"]["rows"])
    assert abs(total - found["trace"]["value"]) <= 5 * found["trace"]["standard_error"] + 1e-4


def test_words_for_people(own_model, tmp_path):
    words = ["hessian", f"{own_model}:model", "--data", f"{own_model}:loader", "--by-block"]
    file = tmp_path / "out.json"
    words += ["--matrix", "gauss-newton", "--json", str(file)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0
    for expected in ("gauss_newton of Sequential", "trace:", "kept graph", "repeated eigenvalues"):
        assert expected in result.stdout
    assert json.loads(file.read_text())["num_products"]["all"] > 0


def test_unknown_parameters(own_model):
    words = ["hessian", f"{own_model}:model", "--data", f"{own_model}:loader"]
    with pytest.raises(UnknownName, match="parameter"):
        CliRunner().invoke(app, [*words, "--parameters", "nothing"], catch_exceptions=False)
