"""These benchmarks beside those of an earlier run or revision: what got slower by more than a tenth.

A revision is checked out beside this tree and measured in the same run, line by line in turns, so that what
else the machine does meets both alike.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]

COSTS = frozenset({"attention", "diagnose", "estimators", "forecast", "growth", "measure"}) | {
    *("training_loop", "treatment", "watching"),
}
"""Benchmarks whose `ratio` is what ours costs; of the others it is how many times faster ours is.

A line with `lower_is_better` says it for itself.
"""

_NOTABLE = 1.1


def changes(old: Iterable[Line], new: Iterable[Line]) -> list[tuple[str, str]]:
    """What changed by more than a tenth: ("slower" | "faster", the line in words), slowest first.

    Lines are distinguished by benchmark and case; what only one of the runs has is not a change.

    Examples:
        >>> old = [{"benchmark": "measure", "case": "a", "ratio": 2.0}]
        >>> changes(old, [{"benchmark": "measure", "case": "a", "ratio": 3.0}])
        [('slower', 'measure, a: 2.0 before, 3.0 now, 1.50 times as slow')]
    """
    before = {_key(line): line["ratio"] for line in old if _has_ratio(line)}
    result = []
    for line in new:
        key = _key(line)
        if not _has_ratio(line) or key not in before:
            continue
        then, now = before[key], line["ratio"]
        is_cost = line.get("lower_is_better", key[0] in COSTS)
        slower = now / then if is_cost else then / now
        phrase = f"{key[0]}, {key[1]}: {then} before, {now} now"
        if slower > _NOTABLE:
            result.append((slower, "slower", f"{phrase}, {slower:.2f} times as slow"))
        elif slower < 1 / _NOTABLE:
            result.append((slower, "faster", f"{phrase}, {1 / slower:.2f} times as fast"))
    return [(kind, text) for _, kind, text in sorted(result, reverse=True)]


def read_lines(path: Path) -> list[Line]:
    """The lines of an earlier run; what is no JSON object, such as a word of make's, is passed over."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        if text.startswith("{"):
            lines.append(json.loads(text))
    return lines


def is_revision(name: str) -> bool:
    """Whether git knows a commit by this name."""
    asked = ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Within, a folder with the files of a revision."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        add = ["git", "worktree", "add", "--quiet", "--detach", str(tree), revision]
        subprocess.run(add, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True)


def in_turns(
    old: Path, new: Path, names: Iterable[str], *, rounds: int = 1
) -> Iterator[tuple[Line, Line]]:
    """The lines of each benchmark in two trees, measured in turns: (old, new) of one case after the other.

    While one of the two computes a line the other one is stopped. Cases that only one of them has are
    passed over.
    """
    for name in names:
        words = (name, "--rounds", str(rounds)) if rounds > 1 else (name,)
        with _running(old, words) as first, _running(new, words) as second:
            both = first, second
            seen: tuple[dict[tuple[str, str], Line], ...] = ({}, {})
            working = list(zip(both, seen, strict=True))
            while working:
                for process, lines in list(working):
                    if not (text := _next_text(process)):
                        working.remove((process, lines))
                    elif text.startswith("{"):
                        line = json.loads(text)
                        lines[_key(line)] = line
            yield from ((seen[0][key], line) for key, line in seen[1].items() if key in seen[0])


@contextmanager
def _running(tree: Path, words: Iterable[str]) -> Iterator["subprocess.Popen[str]"]:
    """A benchmark of a tree, stopped before its first line; ended on the way out."""
    paths = {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *words],
        cwd=tree,
        env={**os.environ, **paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    process.send_signal(signal.SIGSTOP)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _next_text(process: "subprocess.Popen[str]") -> str:
    """Let a process go on until it has printed a line more; empty once it has printed its last."""
    assert process.stdout is not None
    process.send_signal(signal.SIGCONT)
    text = process.stdout.readline()  # it may have ended and still have lines in the pipe
    process.send_signal(signal.SIGSTOP)
    return text


def _key(line: Line) -> tuple[str, str]:
    return str(line.get("benchmark")), str(line.get("case"))


def _has_ratio(line: Line) -> bool:
    ratio = line.get("ratio")
    return isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and ratio > 0
