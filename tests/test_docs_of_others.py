"""The blocks of README and docs that need packages of others (`<!-- zoo -->`): `make test-zoo` runs them."""

import re
from pathlib import Path

import pytest

from tests.docs_scenes import scene_of_others
from tests.support.docs_blocks import BLOCKS, run_commands, run_python, write_files

ROOT = Path(__file__).resolve().parent.parent
_OF_OTHERS = [b for b in BLOCKS if b.mark == "zoo"]
_PAGES_OF_OTHERS = sorted({b.page for b in _OF_OTHERS})


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", _PAGES_OF_OTHERS)
def test_what_needs_packages_of_others_runs(page: str, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    names = scene_of_others(page, monkeypatch)
    write_files(page, tmp_path)
    for block in (b for b in _OF_OTHERS if b.page == page):
        if block.language == "python":
            run_python([block], names, capsys)
        else:
            run_commands(block)


def test_make_runs_every_test_that_needs_packages_of_others() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    run = re.search(r"(?m)^ZOO_TESTS := (.*)$", makefile)
    assert run is not None
    folders = [word.partition("::")[0] for word in run[1].split()]
    users = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"(?m)^from tests.*\b(zoo|scene_of_others)\b", path.read_text())
    ]
    assert len(users) > 5
    for path in users:
        assert any(str(path).startswith(folder) for folder in folders), path
