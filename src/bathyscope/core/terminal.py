"""Text of others on a terminal: control characters in it are shown, never obeyed."""

import re
import shutil
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult

# C0 (but tab and newline), DEL and C1, in which escape sequences begin; marks that reorder what is read; and
# halves of surrogate pairs, which no terminal can be sent.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with every control character but tab and newline written out.

    Examples:
        >>> printable("a\\x1b]0;title\\x07b")
        'a\\\\x1b]0;title\\\\x07b'
    """
    return _CONTROL.sub(lambda result: _written_out(result[0]), text)


def printable_json(text: str) -> str:
    """JSON with the control characters in its strings as JSON writes them: it means the same.

    Examples:
        >>> printable_json('{"name": "\\x9b2J"}')
        '{"name": "\\\\u009b2J"}'
    """
    return _CONTROL.sub(lambda result: f"\\u{ord(result[0]):04x}", text)


def wrapped(text: str, width: int) -> str:
    """Lines that are too wide broken between words, what follows indented as the line began.

    Examples:
        >>> print(wrapped("1. problem: the loss stays where it is\\n   Change: the rate", 24))
        1. problem: the loss
           stays where it is
           Change: the rate
    """
    return "\n".join(_wrapped_line(line, width) for line in text.split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    indent = re.match(r" *(?:\d+\. |[✓✗•-] )?", line)
    hanging = " " * (len(indent[0]) if indent else 0)
    if len(line) <= width or "\t" in line or "  " in line[len(hanging) :]:
        return line  # columns, which a break would tear apart
    return textwrap.fill(
        line,
        max(width, len(hanging) + 20),
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def terminal_width() -> int:
    """Columns of the terminal, as a shell or the terminal itself says."""
    return shutil.get_terminal_size().columns


def _written_out(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


class _Printable:
    """A renderable whose text is printable; what rich itself sends to steer the terminal is kept."""

    def __init__(self, inner: "ConsoleRenderable") -> None:
        self.inner = inner

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.segment import Segment

        for segment in console.render(self.inner, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


class _Guard:
    """A hook of rich's console, see `guarded`."""

    def process_renderables(
        self, renderables: list["ConsoleRenderable"]
    ) -> list["ConsoleRenderable"]:
        return [_Printable(one) for one in renderables]


def guarded(console: "Console | None" = None, *, stderr: bool = False) -> "Console":
    """A console on which text of others is only text: no escape sequence, no markup of rich.

    Args:
        console: guard this one, whose markup stays as it is; a new one for None.
        stderr: a new one writes to standard error.
    """
    from rich.console import Console

    if console is None:
        console = Console(stderr=stderr, markup=False, emoji=False)
    if not any(isinstance(hook, _Guard) for hook in console._render_hooks):
        console.push_render_hook(_Guard())  # type: ignore[arg-type]
    return console
