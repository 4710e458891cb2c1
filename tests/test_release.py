"""What a release says of itself agrees: version, changelog, citation, typing marker, links."""

import re
import tomllib
from pathlib import Path

import bathyscope

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_has_the_version() -> None:
    cited = re.search(r"(?m)^version: (\S+)$", (ROOT / "CITATION.cff").read_text())
    assert cited is not None
    assert cited[1] == bathyscope.__version__


def test_the_changelog_is_by_version() -> None:
    versions = re.findall(r"(?m)^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text())
    assert len(versions) == len(set(versions))
    assert {"0.1.0", bathyscope.__version__} <= set(versions)


def test_types_are_part_of_the_wheel() -> None:
    assert (ROOT / "src" / "bathyscope" / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_no_link_to_a_site_that_does_not_exist() -> None:
    assert "urls" not in PROJECT
