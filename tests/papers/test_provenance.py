"""Published results name commits that are in the history, or say that theirs is not known."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


def git(*arguments):
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def commits():
    """Every commit that a result names, without the mark of a changed tree, and the first to name it."""
    named = {}
    for path in sorted(RESULTS.glob("*.*.*.json")):
        for commit in json.loads(path.read_bytes())["provenance"]["commits"]:
            named.setdefault(commit.rstrip("+"), path.name)
    for name, row in json.loads((RESULTS / "claims.json").read_bytes()).items():
        named.setdefault(row["commit"].rstrip("+"), name)
    named.pop("", None)  # pages say "unknown"
    return named


def test_the_commits_of_results_are_in_the_history():
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no whole history here")
    lost = [
        f"{name}: {commit}"
        for commit, name in commits().items()
        if git("merge-base", "--is-ancestor", commit, "HEAD").returncode
    ]
    assert lost == []
