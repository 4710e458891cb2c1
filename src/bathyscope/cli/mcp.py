"""`bathyscope mcp`: the commands as tools for an agent, over the Model Context Protocol.

Every tool runs its command in a process of its own: what a user's network prints cannot get between the
messages, and a crash ends the tool, not the server.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bathyscope.core.errors import UsageError

_TIMEOUT = 1800.0  # seconds; an agent that waits longer has been forgotten


def mcp() -> None:
    """Serve diagnose, explain, forecast, autopsy and run as tools of the Model Context Protocol (stdio).

    It needs the extra: pip install 'bathyscope[mcp]'.

    Example: bathyscope mcp
    """
    make_server().run("stdio")


def make_server() -> Any:
    """The server with its tools.

    Raises:
        UsageError: the package `mcp` is not installed.
    """
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        raise UsageError(
            "The server needs the package mcp, version 2 or later; install it with "
            "pip install 'bathyscope[mcp]'."
        ) from error
    server = MCPServer("bathyscope", instructions=_INSTRUCTIONS)
    for tool in (diagnose, explain, forecast, autopsy, run):
        server.add_tool(tool)
    return server


_INSTRUCTIONS = (
    "Find out why a PyTorch network does not train. A model and its data are named as "
    "package.module:factory, from the folder in which the server was started."
)


def diagnose(
    model: str,
    data: str = "digits",
    loss: str = "cross-entropy",
    optimizer: str = "sgd",
    lr: float = 0.1,
    probes: str = "standard",
) -> dict[str, Any]:
    """Measure a network block by block: findings, most severe first, with evidence and what helps."""
    setup = _setup(model, data, loss, optimizer, lr)
    return _answer("diagnose", *setup, "--probes", probes)


def forecast(
    model: str,
    data: str = "digits",
    loss: str = "cross-entropy",
    optimizer: str = "sgd",
    lr: float = 0.1,
    budget: int = 300,
) -> dict[str, Any]:
    """Say whether a network will train within a budget of steps: trains, fails or undecided, and why."""
    setup = _setup(model, data, loss, optimizer, lr)
    return _answer("forecast", *setup, "--budget", str(budget))


def explain(code: str) -> dict[str, Any]:
    """Say what a finding means, where that comes from, and what helps."""
    return _answer("explain", code)


def autopsy(path: str, later: str = "") -> dict[str, Any]:
    """Say what happened in a training that crashed, from its log or run folder, or from two weight files."""
    return _answer("autopsy", path, *([later] if later else []))


def run(script: str, arguments: list[str] | None = None, steps: int = 200) -> dict[str, Any]:
    """Run a training script under watch, and say what is wrong with its loop."""
    return _answer("run", "--steps", str(steps), script, *(arguments or []))


def _setup(model: str, data: str, loss: str, optimizer: str, lr: float) -> list[str]:
    return [model, "--data", data, "--loss", loss, "--optimizer", optimizer, "--lr", str(lr)]


def _answer(*command: str) -> dict[str, Any]:
    """What a command writes as JSON; an error is its sentence."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"  # what the user's code prints is not in it
        verb, *rest = command
        done = subprocess.run(
            [sys.executable, "-m", "bathyscope", verb, "--json", str(file), *rest],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
        )
        if not file.exists():
            return {"error": done.stderr.strip()[-2000:] or f"exit code {done.returncode}"}
        value = json.loads(file.read_text(encoding="utf-8"))
    return value if isinstance(value, dict) else {"result": value}
