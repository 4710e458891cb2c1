"""Write what the code of README and docs prints today into the pages: `python -m tools.docs_outputs`.

A block of Python that is followed by a block of text is run, after those before it on the same page,
and the text becomes what it printed. Blocks marked `<!-- slow -->` are left out.
"""

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/whole-training.md")
_BLOCK = re.compile(r"(<!-- slow -->\n)?```(python|text)\n(.*?)```\n", re.DOTALL)


def refreshed(page: str) -> str:
    """The page with the outputs of today."""
    names: dict[str, object] = {}
    written, end, printed = [], 0, None
    blocks = list(_BLOCK.finditer(page))
    last = max((b.start() for b in blocks if b[2] == "text"), default=0)
    for block in blocks:
        written.append(page[end : block.start()])
        end = block.end()
        result = block[0]
        if block[2] == "python" and not block[1] and block.start() < last:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(block[3], names)  # the page's own code
        elif block[2] == "text" and printed is not None and printed.getvalue():
            lines = (line.rstrip() for line in printed.getvalue().strip().splitlines())
            result = "```text\n" + "\n".join(lines) + "\n```\n"
            printed = None
        written.append(result)
    return "".join([*written, page[end:]])


def main() -> None:
    """Refresh all pages, in a folder of their own."""
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in PAGES:
            path = ROOT / name
            path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")
            print(f"refreshed: {name}")


if __name__ == "__main__":
    main()
