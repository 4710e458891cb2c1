"""What `make lint` runs refuses a planted mistake: the configuration has no hole that lets one through."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOUND = '''"""A scratch file."""

from jaxtyping import Float
from torch import Tensor


def doubled(x: Float[Tensor, " n d"]) -> Float[Tensor, " n d"]:
    """Twice x."""
    return 2 * x
'''
PLANTED = {
    "sound": ("", set(), set()),
    "undefined name": (
        '\n\ndef f() -> None:\n    """F."""\n    print(undefined_name)\n',
        {"F821"},
        {"name-defined"},
    ),
    "undefined name in a type": (
        '\n\ndef f(x: "Undefined") -> None:\n    """F."""\n',
        {"F821"},
        {"name-defined"},
    ),
    "broken quoted type": (
        '\n\ndef f(x: "list[int") -> None:\n    """F."""\n',
        set(),
        {"valid-type"},
    ),
    "unused import": ("\n\nimport os\n", {"F401", "E402"}, set()),
    "wrong type": (
        '\n\ndef f() -> int:\n    """F."""\n    return "one"\n',
        set(),
        {"return-value"},
    ),
    "untyped function": (
        '\n\ndef f(x):\n    """F."""\n    return x\n',
        set(),
        {"no-untyped-def"},
    ),
    "untold Any": (
        '\n\ndef f(x: dict) -> None:\n    """F."""\n',
        set(),
        {"type-arg"},
    ),
    "unused type: ignore": ("\n\nx: int = 1  # type: ignore\n", set(), {"unused-ignore"}),
}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("scratch")
    files = {}
    for name, (planted, _, _) in PLANTED.items():
        files[name] = folder / f"{name.replace(' ', '_').replace(':', '')}.py"
        files[name].write_text(SOUND + planted)
    return files


def _run(*arguments: str | Path) -> str:
    done = subprocess.run(
        [str(a) for a in arguments], cwd=ROOT, capture_output=True, text=True, timeout=1500
    )
    assert not done.stderr.strip(), done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PLANTED)
def test_ruff_refuses(name: str, scratch: dict[str, Path]) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed beside Python")
    config = ROOT / "pyproject.toml"
    said = _run(
        ruff, "check", "--no-cache", "--config", config, "--output-format=concise", scratch[name]
    )
    codes = {line.split()[1] for line in said.splitlines() if line.startswith(str(scratch[name]))}
    assert codes == PLANTED[name][1]


def test_mypy_refuses(scratch: dict[str, Path]) -> None:
    pytest.importorskip("mypy")
    said = _run(
        *(sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml"),
        *("--follow-imports=skip", "--ignore-missing-imports", "--no-error-summary"),
        *("--cache-dir", next(iter(scratch.values())).parent / "cache"),
        *scratch.values(),
    )
    for name, path in scratch.items():
        lines = [line for line in said.splitlines() if path.name in line and ": error:" in line]
        assert {line.rsplit("[", 1)[-1].rstrip("]") for line in lines} == PLANTED[name][2], said
