"""`--out`: one way for every command to write what it found."""

import json
import sys
from html.parser import HTMLParser

import pytest
import torch
from safetensors.torch import save_file
from typer.main import get_command
from typer.testing import CliRunner

from bathyscope.cli import app
from bathyscope.cli.out import FINDINGS, TEXTS, printed_by
from bathyscope.cli.screen import echo, is_quiet, set_quiet
from bathyscope.core.errors import UsageError

MINE = """
import torch
from torch import nn

def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

def batch():
    torch.manual_seed(1)
    return torch.randn(8, 3), torch.arange(8) % 2
"""

SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 3)), torch.arange(8) % 2).backward()
    optimizer.step()
"""
FOLDERS = {"compare", "train", "sweep", "reproduce"}
WITHOUT = {"mcp", "data"}  # a server; a cache, whose commands fetch and list


@pytest.fixture
def here(tmp_path, monkeypatch):
    name = f"own_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MINE)
    (tmp_path / "train.py").write_text(SCRIPT)
    save_file({"fc.weight": torch.ones(2, 2)}, tmp_path / "before.safetensors")
    save_file({"fc.weight": torch.full((2, 2), 9.0)}, tmp_path / "after.safetensors")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # `run` leaves the script's own main module behind, which belongs to a process of its own
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    return name


def commands_of(name: str) -> dict[str, list[str]]:
    setup = [f"{name}:model", "--data", f"{name}:batch"]
    return {
        "hessian": [*setup, "-k", "1"],
        "certify": setup,
        "diagnose": setup,
        "check": ["shortcut_length.lemma_1"],
        "check of all": ["list"],
        "autopsy": ["before.safetensors", "after.safetensors"],
        "explain": ["exploding-gradient"],
        "nets": [],
        "forecast": [*setup, "--budget", "10", "--spend", "2"],
    }


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def test_every_command_with_a_result_writes_it_where_out_says() -> None:
    """A new command joins in, or says here why not."""
    for name, command in get_command(app).commands.items():
        if name in WITHOUT:
            continue
        out = next((p for p in command.params if p.name == "out"), None)
        assert out is not None, name
        assert out.multiple is (name not in FOLDERS), name
        assert ("older to write" in out.help) is (name in FOLDERS), name


@pytest.mark.parametrize("name", list(commands_of("")))
def test_json_text_and_page_say_what_the_command_says(here, tmp_path, name) -> None:
    text = [name.partition(" ")[0], *commands_of(here)[name]]
    files = [tmp_path / "deep" / f"result{ending}" for ending in TEXTS]
    out = [word for file in files for word in ("--out", str(file))]
    result = CliRunner(env={"COLUMNS": "100"}).invoke(
        app, [*text, *out, "--json", str(tmp_path / "same.json")], catch_exceptions=False
    )
    assert result.exit_code == 0
    page, values, plain = files
    same = json.loads((tmp_path / "same.json").read_text())
    written = json.loads(values.read_text())
    assert written == same
    assert plain.read_text().split() == result.stdout.split()
    parser = _Text()
    parser.feed(page.read_text())
    assert '<html lang="en">' in page.read_text()
    assert result.stdout.split()[0] in "".join(parser.parts)
    assert all(f"written: {file}" in result.stderr for file in files)


def test_run_writes_the_same_forms(here, tmp_path, capsys) -> None:
    files = [f"result{ending}" for ending in (*TEXTS, *FINDINGS)]
    out = [word for file in files for word in ("--out", file)]
    result = CliRunner().invoke(app, ["run", "--no-diagnose", *out, "train.py"])
    assert result.exit_code == 0
    assert (tmp_path / "result.txt").read_text().startswith("bathyscope run train.py: watched 4")
    assert json.loads((tmp_path / "result.json").read_text())["title"] == "train.py"
    assert "<title>train.py" in (tmp_path / "result.html").read_text()
    assert json.loads((tmp_path / "result.sarif").read_text())["version"] == "2.1.0"
    assert '<testsuite name="bathyscope train.py"' in (tmp_path / "result.xml").read_text()


@pytest.mark.parametrize("command", ["hessian", "autopsy"])
def test_an_ending_that_means_nothing_is_refused_before_the_work(here, command) -> None:
    with pytest.raises(UsageError, match=r"ends in \.html, \.json, \.txt, but 'x\.docx'"):
        CliRunner().invoke(app, [command, "--out", "x.docx", "nothing"], catch_exceptions=False)


def test_what_is_printed_for_a_file_is_whole_where_it_is_quiet() -> None:
    set_quiet(True)
    try:
        assert printed_by(lambda: echo("all of it")) == "all of it\n"
        assert is_quiet()
    finally:
        set_quiet(False)
