"""`bathyscope certify` as a user calls it."""

import json

import pytest
from typer.testing import CliRunner

from bathyscope.cli import app
from bathyscope.core.errors import UsageError

MODULE = """
import torch
from bathyscope.nets import resnest

def model():
    torch.manual_seed(0)
    return resnest(6, 1, width=10, feature_sizes=[4, 4], intercept=False)

def loader():
    torch.manual_seed(1)
    return ((torch.randn(n, 6), torch.randn(n, 1)) for n in (40, 30))

batches = loader()

def breaks():
    raise KeyError("mine")

def empty():
    return iter(())

def no_tuple():
    return ()

def alone():
    return (torch.randn(5, 6),)

def with_nan():
    return torch.randn(40, 6), torch.full((40, 1), torch.nan)

def numbers_with_nan():
    return torch.randn(40, 6), torch.full((40,), torch.nan)

def no_weights():
    return torch.nn.Flatten()

def of_outputs(outputs):
    return outputs.mean()

def without_graph(outputs, targets):
    return (outputs - targets).square().mean().detach()
"""


def certify(*text):
    return CliRunner().invoke(app, ["certify", *text], catch_exceptions=False)


@pytest.fixture
def own(tmp_path, monkeypatch):
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_an_own_network_and_loader(own):
    result = certify(f"{own}:model", "--data", f"{own}:loader", "--json", "-")
    assert result.exit_code == 0
    outcome = json.loads(result.stdout)
    assert outcome["num_samples"] == 70
    assert outcome["loss"] == "squared"
    assert outcome["guaranteed"]
    assert outcome["width"]["rank"] == 10


def test_batches_that_can_be_taken_once_are_all_taken(own):
    result = certify(f"{own}:model", "--data", f"{own}:batches", "--json", "-")
    assert json.loads(result.stdout)["num_samples"] == 70


def test_a_catalog_network_on_images():
    result = certify("aresnest-8", "--data", "digits", "--samples", "60", "--no-each-block")
    assert result.exit_code == 0
    assert "AugmentedResNEst, cross_entropy loss, 60 samples" in result.stdout
    assert "guaranteed: yes" in result.stdout


def test_a_network_outside_the_family():
    result = certify("prebasic-8", "--samples", "40", "--no-each-block")
    assert result.exit_code == 0
    assert "no theorem" in result.stdout


def test_a_run(tmp_path):
    train = ["train", "densenest-8", "--out", str(tmp_path), "--epochs", "1", "--lr", "0.01"]
    small = ["--set", "num_train=64", "--set", "num_test=16", "--json"]
    result = CliRunner().invoke(app, [*train, *small], catch_exceptions=False)
    folder = json.loads(result.stdout)["folder"]
    outcome = certify(
        folder, "--samples", "64", "--no-each-block", "--json", str(tmp_path / "c.json")
    )
    assert outcome.exit_code == 0
    assert json.loads((tmp_path / "c.json").read_text())["network"] == "DenseNEst"
    with pytest.raises(UsageError, match="its own weights"):
        certify(folder, "--set", "width=4")


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(UsageError):
        certify(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (["--data", "{own}:empty"], "gave no batch"),
        (["--data", "{own}:breaks"], "failed: KeyError"),
        (["--data", "{own}:no_tuple"], "gave no batch"),
        (["--data", "{own}:alone"], "A batch is a pair"),
        (["--data", "{own}:with_nan", "--json", "-"], "40 of 40 values of the targets"),
        (["--data", "{own}:numbers_with_nan"], "40 of 40 values of the targets"),
        (["--data", "{own}:loader", "--loss", "{own}:of_outputs"], "could not be computed"),
        (["--data", "{own}:loader", "--loss", "{own}:without_graph"], "no_grad"),
    ],
)
def test_bad_input_is_one_sentence(own, text, said):
    with pytest.raises(UsageError, match=said) as refused:
        certify(f"{own}:model", *(word.format(own=own) for word in text))
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("command", ["diagnose", "hessian"])
def test_a_network_without_weights_is_said_for_any_verb(own, command):
    text = [command, f"{own}:no_weights", "--data", f"{own}:loader"]
    with pytest.raises(UsageError, match="has no parameters; give a network with weights"):
        CliRunner().invoke(app, text, catch_exceptions=False)
