"""What the command line and a page cost: CPU seconds of whole processes, and bytes.

`import` is what `import bathyscope` takes beyond `import torch`. The page is that of a full diagnosis, of a
network of 29 blocks with all states that such a diagnosis has.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_QUICK = {
    "bathyscope --help": ("--help",),
    "bathyscope explain dead-units": ("explain", "dead-units"),
    "bathyscope nets": ("nets",),
    "bathyscope check list": ("check", "list"),
}


def lines(*, rounds: int = 1) -> Iterator[dict[str, Any]]:
    """Processes started again, each after all others."""
    repeats = 3 * rounds
    commands = {
        **{name: ["-m", "bathyscope", *text] for name, text in _QUICK.items()},
        "import torch": ["-c", "import torch"],
        "import torch, bathyscope": ["-c", "import torch, bathyscope"],
    }
    for name in _QUICK:  # compiled once, and in the machine's memory
        _run(commands[name])
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, text in commands.items():
            times[name].append(_run(text))
    for name in _QUICK:
        yield _line(name, times[name])
    both, torch = (
        _line(name, times[name]) for name in ("import torch, bathyscope", "import torch")
    )
    yield {
        "benchmark": "commands",
        "case": "import bathyscope beyond import torch",
        "cpu_seconds": round(both["cpu_seconds"] - torch["cpu_seconds"], 3),
        "wall_seconds": round(both["wall_seconds"] - torch["wall_seconds"], 3),
        "repeats": repeats,
    }
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        what = ["resnet-56", "--set", "width=4", "--data", "digits", "--probes", "full"]
        cost = _run(["-m", "bathyscope", "diagnose", *what, "--out", str(page)])
        yield _line("a page of 29 blocks", [cost]) | {"bytes": page.stat().st_size}
        yield _line("check all", [_run(["-m", "bathyscope", "check", "all"], at=Path(folder))])


def _line(name: str, costs: list[tuple[float, float]]) -> dict[str, Any]:
    return {
        "benchmark": "commands",
        "case": name,
        "cpu_seconds": round(statistics.median(cpu for cpu, _ in costs), 3),
        "wall_seconds": round(statistics.median(wall for _, wall in costs), 3),
        "repeats": len(costs),
    }


def _run(text: list[str], *, at: Path | None = None) -> tuple[float, float]:
    """CPU and wall seconds of a process and its children."""
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *text], check=False, capture_output=True, cwd=at)
    after = os.times()
    cpu = after.children_user + after.children_system
    return cpu - before.children_user - before.children_system, time.perf_counter() - began
