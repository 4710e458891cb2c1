"""Escape sequences, markup and odd environments: what a terminal is sent, and how a command ends."""

import json
import os
import subprocess
import sys

import pytest
import torch

from bathyscope import cli
from bathyscope.core.errors import UsageError
from bathyscope.runs import Configuration, open_run
from bathyscope.training.distributed import launched_group

HOSTILE = "\x1b]0;title\x07\x1b[2J\x1b]52;c;aGk=\x07\x9b31m"


class Settings(Configuration):
    number: int
    label: str


@pytest.fixture
def bathyscope(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*text):
        monkeypatch.setattr(sys, "argv", ["bathyscope", *map(str, text)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
            sys.exit(0)
        result = capsys.readouterr()
        return ended.value.code or 0, result.out, result.err

    return call


def runs(folder, *labels, status="finished"):
    for number, label in enumerate(labels):
        settings = Settings(number=number, label=label)
        with open_run(folder / settings.folder_name(), settings) as run:
            run.end(status, result={"train_loss": 1.0}, ending=label)


def is_plain(text):
    return all(c.isprintable() or c in "\n\t" for c in text)


def test_escape_sequences_in_a_run_are_shown_and_not_obeyed(bathyscope, tmp_path):
    runs(tmp_path / "runs", HOSTILE, "other")
    code, out, err = bathyscope("show", "runs")
    assert code == 0
    assert "\\x1b]0;title" in out.replace("\n", "")
    assert is_plain(out + err)
    code, out, _ = bathyscope("show", "runs", "--json")
    assert is_plain(out)
    assert HOSTILE in {row["label"] for row in json.loads(out)}


@pytest.mark.parametrize("label", ["[/red]", "[bold", "[link=http://x]y[/link]", ":warning:"])
def test_markup_in_a_value_does_not_end_show(bathyscope, tmp_path, label):
    runs(tmp_path / "runs", label, "other")
    code, out, _ = bathyscope("show", "runs")
    assert code == 0
    assert label in out


def test_escape_sequences_in_an_error_are_shown_and_not_obeyed(bathyscope):
    code, _, err = bathyscope("diagnose", f"resnet-{HOSTILE}")
    assert code != 0
    assert is_plain(err)


def test_escape_sequences_in_names_of_weights_are_shown_and_not_obeyed(bathyscope, tmp_path):
    before = {f"{HOSTILE}{i}.weight": torch.ones(3) for i in range(4)}
    after = before | {f"{HOSTILE}1.weight": torch.full((3,), 9.0)}
    torch.save(before, tmp_path / "before.pt")
    torch.save(after, tmp_path / "after.pt")
    code, out, err = bathyscope("autopsy", "before.pt", "after.pt")
    assert code == 0
    assert "\\x1b]0;title\\x07" in out
    assert is_plain(out + err)


def test_autopsy_takes_weights_named_by_whole_numbers(bathyscope, tmp_path):
    before = {i: torch.ones(3) for i in range(4)}
    torch.save(before, tmp_path / "before.pt")
    torch.save(before | {2: torch.full((3,), 9.0)}, tmp_path / "after.pt")
    code, out, _ = bathyscope("autopsy", "before.pt", "after.pt")
    assert code == 0
    assert "2 moved by" in out


@pytest.mark.parametrize("text", [(), ("data",)])
def test_without_a_command_the_help_is_shown_and_the_end_is_explained(bathyscope, text):
    code, out, err = bathyscope(*text)
    assert code == 2
    assert "Usage" in out
    assert "a command is missing" in err


@pytest.mark.parametrize("size", ["abc", "0", "-1", "²"])
def test_a_world_size_that_is_not_a_number_is_one_sentence(bathyscope, monkeypatch, size):
    monkeypatch.setenv("WORLD_SIZE", size)
    code, _, err = bathyscope("diagnose", "resnet-8")
    assert code == 2
    assert "WORLD_SIZE" in err
    assert "ValueError" not in err


def test_a_world_size_alone_is_refused_and_not_waited_for(bathyscope, monkeypatch):
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    code, _, err = bathyscope("diagnose", "resnet-8")
    assert code == 2
    assert "RANK and MASTER_PORT are not set" in err
    with pytest.raises(UsageError, match="torchrun"), launched_group():
        pass


def test_a_wrong_backend_of_matplotlib_does_not_matter(tmp_path):
    code = (
        "import sys; sys.argv = ['bathyscope', '--version']\n"
        "from bathyscope import cli\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    import matplotlib.figure"
    )
    environment = os.environ | {"MPLBACKEND": "nonsense"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
