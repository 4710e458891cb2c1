"""The words that all commands share, `--json`, and what a user's own code may do."""

import inspect
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bathyscope.cli import app, main
from bathyscope.cli.build import loss_of
from bathyscope.cli.resolve import factory_of
from bathyscope.core.errors import UsageError
from tests.unchecked import printed_by

CASE = [
    *("--data", "mine:batch", "--loss", "cross_entropy", "--optimizer", "adamw", "--lr", "0.01"),
    *("--momentum", "0.8", "--weight-decay", "0.001", "--weights", "w.pt", "--blocks", "0"),
    *("--seed", "3", "--batch-size", "8", "--json"),
]
VERBS = ["diagnose", "treat", "hessian", "certify", "compare"]
SHARED = {
    *("data", "loss", "optimizer", "lr", "momentum", "weight_decay", "weights", "blocks", "seed"),
    "as_json",
}

MINE = """
import sys
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))

def batch():
    return torch.randn(8, 4), torch.arange(8) % 2

def leaves():
    sys.exit(0)

class Leaving(nn.Linear):
    def forward(self, x):
        sys.exit(0)

def leaving():
    return Leaving(4, 2)

def leaving_loader():
    yield batch()
    sys.exit(0)

def first_of_a_leaving_loader():
    sys.exit(0)
    yield
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    import torch

    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "breaks.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("mine", "leaves", "breaks"):
        sys.modules.pop(name, None)
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    torch.save(layers.state_dict(), "w.pt")
    yield tmp_path
    sys.modules.pop("mine", None)


def run(*text):
    return CliRunner().invoke(app, [str(word) for word in text])


@pytest.mark.parametrize("command", VERBS)
def test_one_case_can_be_pasted_from_verb_to_verb(here, command):
    own = {"treat": ["--spend", 300], "compare": ["--steps", 2, "--out", "side"]}.get(command, [])
    result = run(command, "mine:model", *own, *CASE)
    assert (result.exit_code, str(result.exception)) == (0, "None"), result.output
    assert json.loads(result.stdout), "JSON and nothing else"


def test_every_verb_on_a_case_declares_the_shared_words():
    for command in app.registered_commands:
        names = set(inspect.signature(command.callback).parameters)
        if "lr" in names:
            assert names >= SHARED, command.name
        if command.name != "mcp":  # its answers are JSON, on a channel of their own
            assert "as_json" in names, f"{command.name} has no --json"


def test_the_optimizer_is_the_one_that_was_asked_for(here):
    from bathyscope.cli.options import CommandOptions

    text = {"model": "mine:model", "data": "mine:batch", "lr": 0.3, "momentum": 0.5}
    for name, field, value in (("sgd", "momentum", 0.5), ("adam", "betas", (0.5, 0.999))):
        setup = CommandOptions(**text, optimizer=name, weight_decay=0.25).setup()
        group = setup.optimizer.param_groups[0]
        assert (group["lr"], group["weight_decay"], group[field]) == (0.3, 0.25, value)
    with pytest.raises(UsageError, match="below 1"):
        CommandOptions(**text | {"momentum": 1.5}, optimizer="adam").setup()


def test_json_means_the_same_everywhere(here, monkeypatch):
    # a plan names the free memory and the speed of the machine, which change from call to call
    monkeypatch.setattr("bathyscope.diagnosis.plan.available_bytes", lambda device: 2**33)
    monkeypatch.setattr("bathyscope.diagnosis.plan._rate", lambda: 1e10)
    for command in (["nets", "plain-8"], ["explain"], ["data", "list"], ["explain", "dead-units"]):
        bare = json.loads(run(*command, "--json").stdout)
        assert bare == json.loads(run(*command, "--json", "-").stdout)
        spoken = run(*command)
        written = run(*command, "--json", "out.json")
        assert json.loads((here / "out.json").read_text()) == bare
        assert written.stdout == spoken.stdout, "words, and the file beside"
        assert "written: out.json" in written.stderr


def test_a_loss_may_be_spelled_with_a_hyphen_or_an_underscore():
    assert loss_of("cross-entropy") is loss_of("cross_entropy")
    with pytest.raises(UsageError, match=r"cross-entropy, .*mse, .*bce"):
        loss_of("hinge")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("diagnose leaves:model", "the module leaves cannot be imported: it called sys.exit(0)"),
        ("diagnose breaks:model", "cannot be imported: ZeroDivisionError: division by zero"),
        ("diagnose mine:leaves", "The factory mine:leaves failed: it called sys.exit(0)"),
        ("diagnose mine:model --data mine:leaves", "it called sys.exit(0)"),
        ("hessian mine:model --data mine:first_of_a_leaving_loader", "it called sys.exit(0)"),
        ("hessian mine:model --data mine:leaving_loader", "called sys.exit(0)"),
        ("diagnose mine:leaving --data mine:batch", "called sys.exit(0)"),
    ],
)
def test_sys_exit_in_a_users_code_is_an_error(here, text, sentence):
    result = run(*text.split())
    assert result.exit_code != 0
    assert sentence in str(result.exception)


@pytest.mark.parametrize(
    "name", [":f", ".mod:f", "mine.py", "mine.py:model", "a/b:f", "mine:", "mine:a b"]
)
def test_a_name_that_is_no_factory_is_one_sentence(here, name):
    result = run("diagnose", name)
    assert isinstance(result.exception, UsageError)
    assert "is not a package.module:factory; write for instance" in str(result.exception)


def test_the_working_folder_cannot_stand_for_a_library(here):
    for name in ("plotly", "pandas", "rich", "safetensors"):
        (here / f"{name}.py").write_text(
            "open('executed', 'w').close()\nraise ImportError('planted')\n"
        )
    text = ["diagnose", "mine:model", "--data", "mine:batch", "--out", "r.html"]
    start = [sys.executable, "-m", "bathyscope"]
    done = subprocess.run([*start, *text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (here / "executed").exists()
    assert (here / "r.html").exists()


def test_a_factory_is_looked_for_in_the_working_folder_last(here, monkeypatch):
    """The installed script begins without the working folder, which `python -m` has put first."""
    before = [path for path in sys.path if path not in ("", str(here))]
    monkeypatch.setattr(sys, "path", before.copy())
    assert factory_of("mine:model").__module__ == "mine"
    assert sys.path == [*before, str(here)]


def test_a_run_is_a_model(here):
    trained = run("train", "plain-8", "--set", "num_train=32", "--set", "max_steps=1", "--json")
    folder = json.loads(trained.stdout)["folder"]
    result = run("diagnose", folder, "--samples", 8, "--json")
    assert json.loads(result.stdout)["title"] == "plain-8"
    refused = run("diagnose", folder, "--set", "width=3")
    assert "A run has its own weights" in str(refused.exception)


def test_training_begins_with_the_weights_given(here):
    import torch

    from bathyscope import nets

    state = nets.build("plain-8", num_classes=10, in_channels=1, seed=5).state_dict()
    torch.save(state, "start.pt")
    text = ["--set", "num_train=32", "--set", "max_steps=1", "--lr", 0, "--weight-decay", 0]
    trained = run("train", "plain-8", "--weights", "start.pt", *text, "--json")
    from safetensors.torch import load_file

    kept = load_file(f"{json.loads(trained.stdout)['folder']}/weights.safetensors")
    for name, value in state.items():
        if "running" not in name and "num_batches" not in name:
            assert torch.equal(kept[name], value), name


@pytest.mark.parametrize(
    ("command", "tables"), [("diagnose", ["thresholds"]), ("sweep", ["fixed", "product", "zip"])]
)
def test_help_shows_the_tables_of_a_file(command, tables):
    """Square brackets are no markup."""
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "100"}).output
    for table in tables:
        assert f"[{table}]" in shown


def test_a_reader_who_has_had_enough_keeps_no_file_from_being_written(
    tmp_path, monkeypatch, capsys
):
    """As `bathyscope diagnose … | head -1` closes the pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    page, text = tmp_path / "it.html", ["diagnose", "resnet-8", "--set", "width=4"]
    monkeypatch.setattr(sys, "argv", ["bathyscope", *text, "--out", str(page)])
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    assert capsys.readouterr().err == f"written: {page}\n"
    assert page.exists()


def test_help_and_errors_do_not_load_torch():
    script = """
    import json, sys
    from bathyscope import cli
    from typer.testing import CliRunner
    for words in (
        *(["--help"], ["diagnose", "--help"], ["diagnose"]),
        *(["explain"], ["explain", "dead-units"], ["explain", "no-such"]),
    ):
        CliRunner().invoke(cli.app, words)
    print(json.dumps("torch" in sys.modules))
    """
    assert printed_by(script) is False


@pytest.mark.parametrize(
    ("given", "words", "expected"),
    [
        (None, ["--version"], "PASSIVE"),
        ("ACTIVE", ["--version"], "ACTIVE"),
        (None, ["run", "-h"], None),
    ],
)
def test_threads_sleep_while_they_wait_unless_their_user_says_otherwise(
    monkeypatch, given, words, expected
):
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # put back behind the test
    monkeypatch.delenv("OMP_WAIT_POLICY")
    if given is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    monkeypatch.setattr(sys, "argv", ["bathyscope", *words])
    with pytest.raises(SystemExit):
        main()
    assert os.environ.get("OMP_WAIT_POLICY") == expected
