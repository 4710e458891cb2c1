"""How the sources read: one name for one class, and functions of a length one can take in at once."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src" / "bathyscope"
LONGEST = 60
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
REASON = "# long:"
"""A longer function has a comment in its first lines that says why: `# long: one case a line`."""


@cache
def definitions() -> list[tuple[Path, list[str], Definition]]:
    """Every class and function with the lines of its file."""
    result = []
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text()
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, Definition):
                result.append((path.relative_to(SOURCES), lines, node))
    return result


def test_a_class_name_occurs_once() -> None:
    locations = defaultdict(list)
    for path, _, node in definitions():
        if isinstance(node, ast.ClassDef):
            locations[node.name].append(str(path))
    twice = {name: result for name, result in locations.items() if len(result) > 1}
    assert not twice


def test_a_long_function_says_why() -> None:
    long = []
    for path, lines, node in definitions():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            first = (
                node.body[0].lineno if ast.get_docstring(node) is None else node.body[0].end_lineno
            )
            code = node.end_lineno - node.lineno + 1 - _docstring_lines(node)
            near = lines[node.lineno - 2 : (first or node.lineno) + 3]
            if code > LONGEST and not any(REASON in line for line in near):
                long.append(f"{path}: {node.name} has {code} lines")
    assert not long


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    assert first.end_lineno is not None
    return first.end_lineno - first.lineno + 1
