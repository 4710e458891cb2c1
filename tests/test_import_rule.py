"""The folders are the architecture: a package imports only from rows below its own."""

import ast
import re
from pathlib import Path

import pytest

import bathyscope

ROOT = Path(bathyscope.__file__).parent
ROWS = [
    {"cli", "testing"},
    {"papers"},
    {"studies"},
    {"diagnosis", "estimators"},
    {"recorder"},
    {"claims", "report"},
    {"foresight"},
    {"rules"},
    {"certificates"},
    {"nets", "measure", "curvature", "remedies", "training", "sweep"},
    {"runs"},
    {"inits", "data"},
    {"linalg", "plugins"},
    {"core"},
]
ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names}
PACKAGES = sorted(p.name for p in ROOT.iterdir() if (p / "__init__.py").exists())


def imported_packages(path: Path) -> set[str]:
    """First-level packages of bathyscope that a file imports, type-checking imports included."""
    result = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "bathyscope":
                names = [f"bathyscope.{alias.name}" for alias in node.names]
        else:
            continue
        result |= {n.split(".")[1] for n in names if n.startswith("bathyscope.")}
    return result


def violations(package: str, imported: set[str]) -> set[str]:
    return {
        other
        for other in imported & set(ROW_OF)
        if other != package and ROW_OF[other] <= ROW_OF[package]
    }


def test_every_package_has_a_row():
    assert set(PACKAGES) <= set(ROW_OF)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_imports_only_from_rows_below(package):
    wrong = {
        (str(path.relative_to(ROOT)), other)
        for path in (ROOT / package).rglob("*.py")
        for other in violations(package, imported_packages(path))
    }
    assert not wrong


def test_no_module_imports_papers_by_name():
    """The papers are found by their entry points alone."""
    outside = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] != "papers"]
    assert not [path for path in outside if "papers" in imported_packages(path)]


def test_no_paper_imports_another():
    for path in (ROOT / "papers").rglob("*.py"):
        theme = path.relative_to(ROOT / "papers").parts[0]
        imported = re.findall(r"bathyscope\.papers\.(\w+)", path.read_text())
        assert set(imported) <= {theme}, path


def test_the_package_needs_nothing_that_is_not_in_the_wheel():
    """The tools that make its data import it, never the other way round."""
    outside = re.compile(r"^\s*(?:from|import) (?:tools|tests|benchmarks)\b", re.MULTILINE)
    assert not [path for path in ROOT.rglob("*.py") if outside.search(path.read_text())]
    assert outside.search("    from tools.forecast_table.draw import draw")


def test_the_rule_can_be_broken(tmp_path):
    file = tmp_path / "conv.py"
    file.write_text("from bathyscope.nets.resnet import ResNet\nfrom bathyscope import data\n")
    assert violations("linalg", imported_packages(file)) == {"nets", "data"}
    assert violations("measure", imported_packages(file)) == {"nets"}
    assert violations("studies", imported_packages(file)) == set()


def test_import_rule_protocols_can_be_checked_at_run_time():
    """A signature that names another one cannot be checked, so that nothing could be imported under test."""
    unchecked = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(re.match(r"Protocol\b", ast.unparse(base)) for base in node.bases)
        and not any("runtime_checkable" in ast.unparse(d) for d in node.decorator_list)
    ]
    assert unchecked == []
