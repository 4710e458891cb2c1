"""What is printed on a terminal: whole words at any width, above a line that moves."""

import io
import sys

import pytest

from bathyscope.cli import screen


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


LONG = "    the probabilities are almost equal, so that the loss cannot come near zero"


def test_words_stay_whole_on_a_narrow_terminal(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stdout", _Terminal())
    screen.echo(LONG)
    lines = sys.stdout.getvalue().splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 40 and line.startswith("    ") for line in lines)
    assert " ".join(sys.stdout.getvalue().split()) == LONG.strip()


@pytest.mark.parametrize("text", [LONG, "plain-8   depth 8   residual no", "\ta table\tof tabs"])
def test_a_file_and_columns_are_left_as_they_are(monkeypatch, text) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    monkeypatch.setattr(sys, "stdout", io.StringIO() if text is LONG else _Terminal())
    screen.echo(text)
    assert sys.stdout.getvalue() == f"{text}\n"


def test_a_line_that_moves_makes_room(monkeypatch, capsys) -> None:
    order = []
    monkeypatch.setattr(screen.typer, "echo", lambda text, err: order.append(text))
    with screen.below(lambda: order.append("stop"), lambda: order.append("start")):
        screen.echo("holds")
    screen.echo("after")
    assert order == ["stop", "holds", "start", "after"]
