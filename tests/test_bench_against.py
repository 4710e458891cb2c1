"""A benchmark that gets slower is seen."""

import ast
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as bench
from benchmarks import against
from benchmarks.against import changes, is_revision, read_lines


def line(benchmark, ratio, case="a", **more):
    return {"benchmark": benchmark, "case": case, "ratio": ratio, **more}


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (line("measure", 2.0), line("measure", 2.21), ["slower"]),  # a cost
        (line("measure", 2.0), line("measure", 2.19), []),
        (line("measure", 2.0), line("measure", 1.8), ["faster"]),
        (line("hosvd", 10.0), line("hosvd", 9.0), ["slower"]),  # times as fast as another
        (line("hosvd", 10.0), line("hosvd", 11.2), ["faster"]),
        (line("hosvd", 10.0), line("hosvd", 11.2, lower_is_better=True), ["slower"]),
        (line("hosvd", 10.0, case="b"), line("hosvd", 1.0), []),
        (line("hosvd", None), line("hosvd", 1.0), []),
        (line("hosvd", 1.0), line("hosvd", None), []),
    ],
)
def test_a_change_of_more_than_a_tenth_is_told(old, new, kinds):
    assert [kind for kind, _ in changes([old], [new])] == kinds


def test_the_slowest_comes_first():
    old = [line("measure", 1.0, case) for case in "abc"]
    new = [line("measure", ratio, case) for ratio, case in zip((1.2, 3.0, 0.5), "abc", strict=True)]
    assert [text[:10] for _, text in changes(old, new)] == [
        "measure, b",
        "measure, a",
        "measure, c",
    ]


@pytest.fixture
def hosvd(monkeypatch):
    made = [line("hosvd", 5.0)]
    monkeypatch.setattr(
        bench.importlib, "import_module", lambda name: SimpleNamespace(lines=lambda rounds: made)
    )
    return made


@pytest.mark.parametrize(("before", "code"), [(5.0, 0), (8.0, 1), (2.0, 0)])
def test_the_command_compares_with_a_file(hosvd, before, code, tmp_path, capsys):
    old = tmp_path / "old.jsonl"
    old.write_text("make: entering\n" + json.dumps(line("hosvd", before)) + "\n")
    assert len(read_lines(old)) == 1
    assert bench.main(["hosvd", "--against", str(old)]) == code
    result = capsys.readouterr()
    assert json.loads(result.out) == hosvd[0]
    assert ("slower: hosvd, a: 8.0 before, 5.0 now" in result.err) == (code == 1)


def test_a_file_or_name_that_is_not_there_is_said(hosvd, capsys):
    assert bench.main(["--against", "none.jsonl"]) == 2
    assert "none.jsonl" in capsys.readouterr().err
    assert bench.main(["nothing"]) == 2


@pytest.mark.parametrize(
    ("phrase", "rounds"), [(["hosvd"], 1), (["--rounds", "3"], 3), (["hosvd", "--rounds", "2"], 2)]
)
def test_more_rounds_can_be_asked_for(monkeypatch, phrase, rounds):
    asked = []
    monkeypatch.setattr(bench, "BENCHMARKS", ("hosvd",))
    monkeypatch.setattr(
        bench.importlib,
        "import_module",
        lambda name: SimpleNamespace(lines=lambda rounds: asked.append(rounds) or []),
    )
    assert bench.main(phrase) == 0
    assert asked == [rounds]


@pytest.mark.parametrize("phrase", [["--rounds"], ["--rounds", "0"], ["hosvd", "--rounds", "many"]])
def test_rounds_are_a_whole_number(hosvd, capsys, phrase):
    assert bench.main(phrase) == 2
    assert "whole number" in capsys.readouterr().err


@pytest.mark.parametrize("name", bench.BENCHMARKS)
def test_each_of_them_takes_rounds(name):
    tree = ast.parse(Path(bench.__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
    (lines,) = (part for part in tree.body if getattr(part, "name", "") == "lines")
    assert [option.arg for option in lines.args.kwonlyargs] == ["rounds"]


def test_help_names_the_benchmarks_and_runs_none(capsys):
    assert bench.main(["--help"]) == 0
    assert "conv_spectrum" in capsys.readouterr().out


def make_tree(folder, numbers):
    """A tree whose benchmark `made` prints a line for each number."""
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "__init__.py").touch()
    rows = [json.dumps(line("made", ratio, case)) for case, ratio in numbers.items()]
    said = "".join(f"print({row!r}, flush=True)\n" for row in rows)
    words = json.dumps(line("made", 1.0, "words"))
    said += f"import sys; print({words!r}.replace('words', ' '.join(sys.argv[1:])), flush=True)\n"
    (folder / "benchmarks" / "__main__.py").write_text("print('no JSON', flush=True)\n" + said)
    return folder


@pytest.mark.parametrize("ends_early", [False, True])
def test_two_trees_are_measured_in_turns_and_paired_by_case(tmp_path, monkeypatch, ends_early):
    if ends_early:  # before anyone has read what they printed
        monkeypatch.setattr(against.signal, "SIGSTOP", signal.SIGCONT)
    old = make_tree(tmp_path / "old", {"a": 1.0, "gone": 5.0, "b": 2.0})
    new = make_tree(tmp_path / "new", {"b": 1.0, "a": 3.0, "added": 7.0})
    pairs = list(against.in_turns(old, new, ["made"], rounds=3))
    assert {new["case"]: (old["ratio"], new["ratio"]) for old, new in pairs} == {
        "a": (1.0, 3.0),
        "b": (2.0, 1.0),
        "made --rounds 3": (1.0, 1.0),
    }


@pytest.mark.skipif(not is_revision("HEAD"), reason="not in a checkout of git")
def test_a_revision_is_what_git_knows():
    assert is_revision("HEAD")
    assert not is_revision("no-such-commit")
