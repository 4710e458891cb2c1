"""Every block of code in README and docs does what it says: Python runs, commands parse and run.

A page's Python blocks run one after the other in one namespace, which begins with the things that pages
take for granted (`model`, `x`, `y`, …: see `docs_scenes`). A block that cannot run here carries a comment
before it, with the reason: `<!-- not run: … -->`; one that takes long `<!-- slow -->`: it runs in `make
test-docs`; one that needs a package of others `<!-- zoo -->`: it runs in `make test-zoo`; one that needs
data sets `<!-- needs: mnist -->`: it runs in `make test-docs` where they were fetched.
Commands are parsed even where they are not run: the command and its options must exist; of those that begin
with `python` the module or file must. A block that is the
text of a file (`<!-- file: mine.py -->`) is written where the page's commands run. What a block prints, if
the page shows it (`<!-- output -->`), is what it prints here, apart from the digits of numbers. Commands that
take up what Python left (`<!-- after -->`) run among the Python blocks, in the same folder.
"""

import itertools
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from bathyscope import data
from tests.docs_scenes import FILES, scene
from tests.support.docs_blocks import (
    BLOCKS,
    PAGES,
    ROOT,
    Block,
    blocks_in,
    run_commands,
    run_python,
    without_digits,
    write_files,
)


@pytest.fixture(autouse=True)
def leaves_no_modules(tmp_path, monkeypatch):
    """A page's files are no modules of the tests that follow in this process."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def _cases(blocks: list[list[Block]] | list[Block], *, name) -> list[object]:
    return [
        pytest.param(
            item,
            id=name(item),
            marks=[pytest.mark.slow, pytest.mark.timeout(1200)]
            if any(
                b.mark in ("slow", "needs") for b in (item if isinstance(item, list) else [item])
            )
            else [],
        )
        for item in blocks
    ]


def _python_in(page: Path) -> list[list[Block]]:
    """The blocks that run one after the other: all of a page, and those before the first slow one."""
    blocks = [
        block
        for block in blocks_in(page)
        if (block.language == "python" and block.mark in (None, "slow", "needs"))
        or block.mark in ("output", "after")
    ]
    quick = list(itertools.takewhile(lambda block: block.mark not in ("slow", "needs"), blocks))
    return [runs for runs in ([blocks, quick] if len(quick) < len(blocks) else [blocks]) if runs]


_PYTHON = [runs for page in PAGES for runs in _python_in(page)]


@pytest.mark.parametrize("blocks", _cases(_PYTHON, name=lambda b: f"{b[0].page}-{len(b)}"))
def test_python_runs(blocks: list[Block], tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    check_data(*blocks)
    if blocks[0].page in FILES:
        FILES[blocks[0].page](monkeypatch)
    run_python(blocks, scene(), capsys)


def check_data(*blocks: Block) -> None:
    """Skip the test where a set that a block needs was not fetched."""
    for block in blocks:
        for name in (block.reason or "").split(", ") if block.mark == "needs" else ():
            if not data.is_present(name):
                pytest.skip(f"{name} has not been fetched")


def test_a_page_that_shows_another_output_is_noticed() -> None:
    assert without_digits("factor 4915  and 1e-9") == without_digits("factor 12  and\n3.5")
    assert without_digits("the gradient grows") != without_digits("the gradient shrinks")


_COMMANDS = [b for b in BLOCKS if any(arguments_of[0] != "python" for arguments_of in b.lines)]


def test_a_verb_or_an_option_that_does_not_exist_is_noticed() -> None:
    for line in ("bathyscope diagnose resnet-8 --nowhere 3", "bathyscope nothing resnet-8"):
        block = Block("made up", 1, "", f"{line}\n", None, None)
        with pytest.raises(Exception, match="No such"):
            test_commands_exist_with_their_options(block)


@pytest.mark.parametrize("block", [pytest.param(b, id=f"{b.page}-{b.number}") for b in _COMMANDS])
def test_commands_exist_with_their_options(block: Block) -> None:
    import typer
    from typer.core import TyperGroup
    from typer.main import get_command

    from bathyscope.cli import app
    from bathyscope.cli.options import complete_json

    for _, *text in block.commands:
        command = get_command(app)
        context = typer.Context(command)
        while isinstance(command, TyperGroup):
            name, command, text = command.resolve_command(context, text)
            context = typer.Context(command, info_name=name, parent=context)
        for parameter in command.params:  # values are judged when the command runs
            parameter.callback = None
        command.parse_args(context, complete_json(list(text)))


@pytest.mark.parametrize(
    "block",
    _cases(
        [b for b in _COMMANDS if b.mark in (None, "slow", "needs")],
        name=lambda b: f"{b.page}-{b.number}",
    ),
)
def test_commands_run(block: Block, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_data(block)
    write_files(block.page, tmp_path)
    if block.page in FILES:
        FILES[block.page](monkeypatch)
    run_commands(block)


def test_modules_and_files_that_are_called_exist() -> None:
    called = [w for b in BLOCKS for w in b.lines if w[0] == "python"]
    assert len(called) > 5
    for _, first, *rest in called:
        result = find_spec(rest[0]) if first == "-m" else (ROOT / first).is_file()
        assert result, (first, rest)


def test_targets_exist() -> None:
    known = re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text())
    for block in BLOCKS:
        assert set(block.targets) <= set(known), f"{block.page}, block {block.number}"


def test_what_is_not_run_says_why() -> None:
    for block in BLOCKS:
        if block.mark == "not run":
            assert block.reason, f"{block.page}, block {block.number}"


def test_every_block_has_a_page_of_its_own_name() -> None:
    names = [page.name for page in PAGES]
    assert len(names) == len(set(names))


def test_python_is_marked_as_python() -> None:
    """A block of Python without its language would never run."""
    for block in BLOCKS:
        if not block.language:
            assert not re.search(r"(?m)^(import|from) \w+|^\w+ = \w+\.", block.code), block
