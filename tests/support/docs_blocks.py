"""The blocks of code in README and docs, and how they are run."""

import importlib
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]


PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/how-to/*.md")),
]


_BLOCK = re.compile(
    r"(?:<!-- *(?P<mark>not run|slow|file|output|zoo|needs|after)(?:: *(?P<reason>[^>]*?))? *-->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    page: str
    number: int
    language: str
    code: str
    mark: str | None
    reason: str | None

    @property
    def lines(self) -> list[list[str]]:
        """Lines that call a program, without prompt and comment, one list of words each."""
        if self.language == "python" or self.mark == "output":
            return []
        joined = self.code.replace("\\\n", " ")
        lines = [line.removeprefix("$ ") for line in joined.splitlines()]
        called = ("bathyscope ", "torchrun ", "python ")
        return [shlex.split(line, comments=True) for line in lines if line.startswith(called)]

    @property
    def commands(self) -> list[list[str]]:
        """Those that call bathyscope, alone or under torchrun."""
        return [text[text.index("bathyscope") :] for text in self.lines if "bathyscope" in text]

    @property
    def targets(self) -> list[str]:
        """The targets of lines that call make."""
        return re.findall(r"(?m)^(?:\$ )?make ([\w-]+)", self.code)


def blocks_in(path: Path) -> list[Block]:
    result = _BLOCK.finditer(path.read_text())
    return [
        Block(path.name, i, m["language"], textwrap.dedent(m["code"]), m["mark"], m["reason"])
        for i, m in enumerate(result, 1)
    ]


BLOCKS = [block for page in PAGES for block in blocks_in(page)]


def without_digits(text: str) -> list[str]:
    """The words of a text, line breaks and the digits of numbers left out; strips are pictures.

    What follows the count of checks is left out too: every new rule changes it.
    """
    text = re.split(r"\n\d+ checks? passed", text)[0]
    lines = [line for line in text.splitlines() if not re.search("[▁▂▃▄▅▆▇█]", line)]
    return re.sub(r"[-−]?\d[\d,.]*(e-?\d+)?", "#", " ".join(lines)).split()


def run_python(blocks: list[Block], names: dict[str, object], capsys) -> None:
    for block in blocks:
        if block.mark == "output":
            assert without_digits(capsys.readouterr().out) == without_digits(block.code)
            continue
        if block.mark == "after":
            run_commands(block)
            continue
        capsys.readouterr()
        exec(compile(block.code, f"{block.page}, block {block.number}", "exec"), names)


def write_files(page: str, folder: Path) -> None:
    """The files whose text stands on the page; modules of the same name on another page are forgotten."""
    for block in BLOCKS:
        if block.page == page and block.mark == "file":
            assert block.reason is not None
            (folder / block.reason).write_text(block.code)
            sys.modules.pop(Path(block.reason).stem, None)
            sys.path[:] = [p for p in sys.path if not p or not (Path(p) / block.reason).exists()]
    importlib.invalidate_caches()


def run_commands(block: Block) -> None:
    from bathyscope.cli import app

    for program, *text in block.lines:
        if program == "bathyscope":
            done = CliRunner().invoke(app, [w.replace("~", str(Path.home())) for w in text])
            assert done.exit_code == 0, (done.output, done.exception)
        elif program == "torchrun":
            launch = [sys.executable, "-m", "torch.distributed.run", *text]
            started = subprocess.run(launch, capture_output=True, text=True, check=False)
            assert started.returncode == 0, started.stderr[-2000:]
