"""The terminal reports in the docs are what the code beside them prints today."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "whole-training.md"


def test_the_reports_of_three_real_bugs_are_those_of_today(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    page = PAGE.read_text(encoding="utf-8").split("## What is measured")[0]
    blocks = re.findall(r"```(python|text)\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    compared = 0
    for kind, text in blocks:
        if kind == "python":
            exec(text, names)  # the page's own code
            continue
        printed = capsys.readouterr().out
        assert _lines(printed) == _lines(text)
        compared += 1
    assert compared == 3


def _lines(text: str) -> list[str]:
    """The report up to the count of checks, which every new rule changes."""
    shown = re.split(r"\n\d+ checks? passed", text)[0]
    return [line.rstrip() for line in shown.strip().splitlines()]
