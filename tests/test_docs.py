"""Pages that follow from the code are current, and the documents speak of the project only."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", generator().PAGES)
def test_generated_pages_are_current(name):
    assert (ROOT / "docs" / name).read_text() == generator().PAGES[name](), "run docs/generate.py"


def test_no_path_outside_the_project_is_named():
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")]:
        assert not re.search(r"\.\./shared|/work/", path.read_text()), path
