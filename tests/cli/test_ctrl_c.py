"""Ctrl-C in the middle of a command: one sentence, exit code 130, no file but whole ones."""

import signal
import sys

import pytest

from bathyscope import cli

STOPPING = """
import signal
from torch import nn

class Net(nn.Sequential):
    calls = 0

    def forward(self, x):
        Net.calls += 1
        if Net.calls == {call}:
            signal.raise_signal(signal.SIGINT)
        return super().forward(x)

def make():
    hidden = (layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.ReLU()))
    return Net(nn.Flatten(), *hidden, nn.Linear(64, 10))
"""


@pytest.fixture
def stopped(monkeypatch, capsys, tmp_path):
    """What a command says and leaves where the network's forward pass is reached by Ctrl-C."""
    monkeypatch.chdir(tmp_path)
    # a shell's background job ignores SIGINT, and so would everything it starts
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def call(command, *text, at):
        module = f"stopped_in_{command}_{at}"  # a module is imported once in a process
        (tmp_path / f"{module}.py").write_text(STOPPING.format(call=at))
        monkeypatch.setattr(sys, "argv", ["bathyscope", command, f"{module}:make", *text])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        (tmp_path / f"{module}.py").unlink()
        result = capsys.readouterr()
        left = [path.name for path in tmp_path.rglob("*") if path.suffix != ".pyc"]
        return ended.value.code, result.out, result.err, set(left) - {"__pycache__"}

    yield call
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("at", [1, 12])
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("diagnose", ("--probes", "full", "--out", "report.html", "--json", "report.json")),
        ("forecast", ("--json", "forecast.json")),
        ("treat", ("--save", "w.safetensors", "--save-recipe", "r.json", "--out", "t.html")),
        ("compare", ("--out", "compared")),
    ],
)
def test_it_is_one_sentence_and_leaves_nothing(stopped, command, text, at):
    code, out, err, left = stopped(command, *text, at=at)
    assert (code, out, left) == (130, "", set())
    assert err == f"bathyscope: {command} was stopped by Ctrl-C. No file is left half-written.\n"


def test_a_training_says_how_to_go_on(stopped):
    small = ("--set", "num_train=64", "--set", "num_test=32", "--epochs", "30")
    code, out, err, left = stopped("train", *small, at=5)
    assert (code, err) == (130, "")
    assert "stopped at step" in out
    assert "the same command with --resume continues" in out
    assert not [name for name in left if name.endswith(".tmp")]
