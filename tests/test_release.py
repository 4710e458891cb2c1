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


def test_links_are_of_one_owner_who_is_said_to_be_a_placeholder() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert re.search(r"# The owner is a placeholder.*\n\[project\.urls\]", text)
    owners = {url.split("/")[3] for url in PROJECT["urls"].values()}
    assert len(owners) == 1
    assert f"@{owners.pop()}/" in (ROOT / ".github" / "CODEOWNERS").read_text()


def test_the_workflow_tests_the_lowest_versions_that_are_allowed() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    python = PROJECT["requires-python"].removeprefix(">=")
    (torch,) = (need for need in PROJECT["dependencies"] if need.startswith("torch>="))
    lowest = torch.removeprefix("torch>=").split(",")[0]
    assert f'python: "{python}", torch: "torch=={lowest}' in workflow


def test_no_tool_is_called_by_a_path_of_one_machine() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert not re.search(r"entry: \S*/", hooks)
