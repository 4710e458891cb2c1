"""The recording of a terminal in the README: a real run of the command, in color, as SVG.

python -m tools.terminal_recording docs/figures/terminal.svg -- diagnose plain-56
"""

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 100


def recorded(arguments: list[str]) -> str:
    """What the command prints to a terminal of this width, with its colors."""
    environment = os.environ | {
        "COLUMNS": str(WIDTH),
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "PYTHONIOENCODING": "utf-8",
    }
    command = [sys.executable, "-m", "bathyscope", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def as_svg(command: str, output: str) -> str:
    """A window with the command and what it printed; the same text gives the same file."""
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(output.rstrip("\n")))
    drawing = console.export_svg(title="bathyscope", unique_id="bathyscope")
    # a picture in a page asks nothing of any other place: the reader's own fixed-width font will do
    return re.sub(r"\s*@font-face \{.*?\}\n", "\n", drawing, flags=re.DOTALL)


def main() -> None:
    """Run the command and write the picture."""
    file, _, *arguments = sys.argv[1:]
    command = shlex.join(["bathyscope", *arguments])
    Path(file).write_text(as_svg(command, recorded(arguments)), encoding="utf-8")


if __name__ == "__main__":
    main()
