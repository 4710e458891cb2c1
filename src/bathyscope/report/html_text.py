"""The few pieces that every part of the page is written with. All text is escaped here or nowhere."""

import json
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Any

__all__ = ["asset", "embedded", "escape", "joined", "number_list", "section"]


def joined(parts: Iterable[str]) -> str:
    """Pieces of markup under each other."""
    return "\n".join(part for part in parts if part)


def section(title: str, body: str, *, name: str, lead: str = "") -> str:
    """A titled section, or nothing when it has no body.

    Examples:
        >>> print(section("Notes", "<p>x</p>", name="notes"))
        <section id="notes">
        <h2>Notes</h2>
        <p>x</p>
        </section>
    """
    if not body:
        return ""
    told = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    return joined(
        (f'<section id="{escape(name)}">', f"<h2>{escape(title)}</h2>", told, body, "</section>")
    )


def number_list(pairs: Iterable[tuple[str, str]], *, style: str) -> str:
    """Names and values as a definition list."""
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs
    )
    return f'<dl class="{style}">{items}</dl>' if items else ""


def embedded(data: Any) -> str:
    """JSON that can stand inside a script element, whatever the strings in it.

    Examples:
        >>> embedded({"name": "</script>"})
        '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def asset(name: str) -> str:
    """The text of a file that lies beside this one under `assets`."""
    return files("bathyscope.report").joinpath("assets", name).read_text(encoding="utf-8")
