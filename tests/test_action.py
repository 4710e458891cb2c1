"""The action and the hook as their runners would run them: the text of the files, executed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
MINE = """
import torch
from torch import nn

def broken():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    model[0].bias.data.fill_(-100.0)
    return model

def sound():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(32, 8, generator=generator), torch.arange(32) % 3
"""


@pytest.fixture
def folder(tmp_path):
    """Where the runner works: the network's module, and `python` and `bathyscope` of this environment."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "bin").mkdir()
    for name, command in (("python", ""), ("bathyscope", "-m bathyscope")):
        file = tmp_path / "bin" / name
        file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {command} "$@"\n')
        file.chmod(0o755)
    return tmp_path


def shell(folder, script, **environment):
    """As GitHub runs a step with `shell: bash`."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        env=os.environ | {"PATH": path} | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def action_step(number, **inputs):
    """The script and the variables of a step, with what stands for inputs filled in."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    values = {key: entry.get("default", "") for key, entry in action["inputs"].items()} | inputs
    step = action["runs"]["steps"][number]

    def filled(text):
        return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda m: str(values[m[1]]), text)

    return filled(step["run"]), {key: filled(text) for key, text in step["env"].items()}


@pytest.mark.parametrize(
    ("network", "code"), [("broken", 3), pytest.param("sound", 0, marks=pytest.mark.slow)]
)
def test_the_action(folder, network, code):
    script, variables = action_step(1, model=f"mine:{network}", data="mine:batch")
    summary = folder / "summary.md"
    summary.touch()
    done = shell(folder, script, GITHUB_STEP_SUMMARY=str(summary), **variables)
    assert done.returncode == code, done.stderr
    assert ("::error " in done.stdout) == (code == 3)
    assert "| " in summary.read_text() or code == 0
    assert (folder / "bathyscope.html").is_file()


def test_no_input_of_the_action_is_read_as_a_command(folder):
    script, variables = action_step(1, model="mine:sound; touch pwned", data="$(touch pwned)")
    assert shell(folder, script, **variables).returncode == 2
    assert not (folder / "pwned").exists()


def test_the_action_installs_the_folder_that_it_is_in():
    script, variables = action_step(0)
    assert script == 'python -m pip install --quiet "$ACTION_PATH"'
    assert variables == {"ACTION_PATH": "${{ github.action_path }}"}


@pytest.mark.parametrize(
    ("network", "code"), [("broken", 3), pytest.param("sound", 0, marks=pytest.mark.slow)]
)
def test_the_hook(folder, network, code):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    arguments = [f"mine:{network}", "--data", "mine:batch"]
    done = shell(folder, shlex.join([*shlex.split(hook["entry"]), *arguments]))
    assert done.returncode == code, done.stderr
    assert ("FAILED: " in done.stdout + done.stderr) == (code == 3)
