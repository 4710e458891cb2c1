"""The recording of a terminal: the same text, in color, as a picture that asks nothing of other places."""

import re
from pathlib import Path

from tools.terminal_recording import as_svg

RECORDED = Path(__file__).resolve().parents[2] / "docs" / "figures" / "terminal.svg"


def addresses(svg):
    return set(re.findall(r"url\((?!#)[^)]*\)|(?:href|src)=\"[^\"#]*\"", svg))


def test_a_recording_is_the_text_in_color_and_asks_for_nothing():
    svg = as_svg("bathyscope nets", "\x1b[31mplain-56\x1b[0m <b>")
    assert svg == as_svg("bathyscope nets", "\x1b[31mplain-56\x1b[0m <b>")
    assert "plain-56" in svg
    assert "&lt;b&gt;" in svg
    assert not addresses(svg)


def test_the_readme_shows_one_that_was_made_so():
    svg = RECORDED.read_text(encoding="utf-8")
    assert not addresses(svg)
    text = svg.replace("&#160;", " ")
    assert "$ bathyscope diagnose plain-56" in text
    assert "exploding-gradient" in text
