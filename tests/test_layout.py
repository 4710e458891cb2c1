"""How the tests are laid out: what several share stands in `tests/support`, names say what is tested."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
MODULES = sorted(TESTS.rglob("*.py"))


def imported_tests(source: str) -> list[str]:
    """Modules named `test_…` of this folder that a source imports."""
    result = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        result += [
            n for n in names if n.startswith("tests.") and re.search(r"\.test_\w+(\.\w+)?$", n)
        ]
    return result


def test_no_test_module_imports_another():
    guilty = {str(path): imported_tests(path.read_text()) for path in MODULES}
    assert not {path: names for path, names in guilty.items() if names}
    assert imported_tests("from tests.core.test_blocks import chain") == [
        "tests.core.test_blocks.chain"
    ]
    assert imported_tests("from tests.core import test_blocks") == ["tests.core.test_blocks"]


def test_a_test_is_named_for_what_it_tests():
    numbered = re.compile(r"def (test_(?:point|issue|item|task)_?\d+\w*)")
    guilty = {str(path): numbered.findall(path.read_text()) for path in MODULES}
    assert not {path: names for path, names in guilty.items() if names}
    assert numbered.search("def " + "test_point_6_x")


def test_no_name_of_a_test_occurs_twice_in_a_file():
    for path in MODULES:
        names = [n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)]
        tests = [name for name in names if name.startswith("test_")]
        assert len(tests) == len(set(tests)), path
