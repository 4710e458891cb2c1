"""Do the tests notice? Each subtle mutant of `mutant_table` is put into a copy of the sources, and tests run.

    python -m benchmarks.mutants --out FILE [--only TEXT] [--named] [--part 0/2] [--most 10] [--seconds 240]

A mutant is killed where the tests of its row fail (or need too much time of the processor), or else those of
its whole package, which --named leaves out; it survives where both pass. Tests that fail without any mutant
are reported and prove nothing. The results are one JSON object per line; rows in the file are not run
again. One process imports torch and forks for each mutant.
"""

import argparse
import compileall
import json
import os
import py_compile
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from benchmarks.mutant_table import TABLE

ROOT = Path(__file__).resolve().parent.parent
COPIED = (
    "src",
    "tests",
    "benchmarks",
    "tools",
    "docs",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    "Makefile",
    "conftest.py",
    "mkdocs.yml",
    "action.yml",
    "constraints.txt",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the table of mutants.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="rows whose file or tests contain this")
    parser.add_argument("--named", action="store_true", help="only the tests of the row")
    parser.add_argument(
        "--seconds", type=int, default=240, help="of the processor, after which it counts as killed"
    )
    parser.add_argument("--part", default="0/1", help="which fraction of the rows, as 0/2 and 1/2")
    parser.add_argument("--most", type=int, default=10**6, help="how many to run this time")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    known = _read(options.out)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, options.out.open("a") as out:
        tree = _copied_tree(Path(folder))
        _import_what_is_heavy()
        rows = [r for r in list(_rows(options.only))[part::parts] if r["key"] not in known]
        for row in rows[: options.most]:
            package = f"tests/{str(row['file']).split('/')[0]}"
            for tests in (str(row["tests"]),) if options.named else (str(row["tests"]), package):
                if tests not in known:
                    green = {"key": tests, "passes": _run(tree, tests, options.seconds) == 0}
                    _keep(green, known, out)
                result = _outcome(
                    tree, row, tests, options.seconds, is_green=bool(known[tests]["passes"])
                )
                if "outcome" not in row or result[0] == "killed":
                    row["outcome"], row["seconds"] = result
                if row["outcome"] != "survived":
                    break
            _keep(row, known, out)
            print(f"{row['outcome']:9} {row['file']}: {row['new']}", flush=True)
    _summarize([known[row["key"]] for row in _rows(options.only) if row["key"] in known])


def _keep(row: dict[str, object], known: dict[str, dict[str, object]], out: IO[str]) -> None:
    known[str(row["key"])] = row
    out.write(json.dumps(row) + "\n")
    out.flush()


def _rows(only: str) -> Iterator[dict[str, object]]:
    for tests, mutants in TABLE.items():
        for file, old, new in mutants:
            if only in file or only in tests:
                key = f"{file}|{old}|{new}|{tests}"
                yield {"key": key, "file": file, "old": old, "new": new, "tests": tests}


def _read(path: Path) -> dict[str, dict[str, object]]:
    if not path.exists():
        return {}
    return {row["key"]: row for row in map(json.loads, path.read_text().splitlines())}


def _copied_tree(folder: Path) -> Path:
    """The sources and tests, compiled so that only a file that was changed is compiled again."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(folder / "src", quiet=1, invalidation_mode=mode)
    return folder


def _import_what_is_heavy() -> None:
    import hypothesis  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import pandas  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch

    torch.set_num_threads(1)


def _outcome(
    tree: Path, row: dict[str, object], tests: str, seconds: int, *, is_green: bool
) -> tuple[str, float]:
    begin = time.monotonic()
    if not is_green:
        return "red", 0.0
    path = tree / "src" / "bathyscope" / str(row["file"])
    if not path.exists() or path.read_text().count(str(row["old"])) != 1:
        return "stale", 0.0
    with _changed(path, str(row["old"]), str(row["new"])):
        examples = f"src/bathyscope/{row['file']}"
        code = _run(tree, f"{tests} {examples}", seconds)
    return ("survived" if code == 0 else "killed"), round(time.monotonic() - begin, 1)


@contextmanager
def _changed(path: Path, old: str, new: str) -> Iterator[None]:
    before = path.read_text()
    path.write_text(before.replace(old, new))
    try:
        yield
    finally:
        path.write_text(before)


def _run(tree: Path, tests: str, seconds: int) -> int:
    """Exit code of the tests in a child of this process, in which the package is not imported yet."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(tree)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        sys.dont_write_bytecode = True
        os.environ |= {
            "PYTHONPATH": str(tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MPLBACKEND": "Agg",
        }
        sys.path[:0] = [str(tree / "src"), str(tree)]
        for name in [
            n for n in sys.modules if n.split(".")[0] in ("bathyscope", "benchmarks", "tests")
        ]:
            del sys.modules[name]
        nowhere = os.open(tree / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        import pytest

        arguments = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", *tests.split()]
        os._exit(int(pytest.main(arguments)))
    until = time.monotonic() + 20 * seconds  # one that sleeps for ever
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def _summarize(rows: list[dict[str, object]]) -> None:
    counts = Counter(str(row["outcome"]) for row in rows)
    packages = Counter(str(row["file"]).split("/")[0] for row in rows)
    alive = Counter(str(r["file"]).split("/")[0] for r in rows if r["outcome"] == "survived")
    result = counts["killed"] + counts["survived"]
    print(f"{counts['killed']} of {result} killed; {dict(counts)}")
    for package, number in sorted(packages.items()):
        print(f"  {package}: {number}, survived {alive[package]}")


if __name__ == "__main__":
    main()
