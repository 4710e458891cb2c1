"""Every notebook runs from top to bottom, and prints what it shows: the words, if not the digits."""

import re
from pathlib import Path

import pytest

from tests.support.docs_blocks import without_digits

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LONG = {"failing-transformer", "estimators", "singularity", "norm-preservation", "nests"}
"""Those that take more than a few seconds run in `make test-docs`."""

HEAVIEST = 250_000  # bytes: light enough to read on the web


def printed(cell) -> list[str]:
    """The words that a cell prints, and those of the value that it ends with; figures aside."""
    texts = [o["text"] for o in cell.outputs if o.output_type == "stream"]
    texts += [o.data["text/plain"] for o in cell.outputs if o.output_type == "execute_result"]
    return without_digits("\n".join(texts))


def marked(path: Path):
    marks = [pytest.mark.timeout(1200), *([pytest.mark.slow] if path.stem in LONG else [])]
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [marked(path) for path in NOTEBOOKS])
def test_it_runs_and_its_output_is_fresh(path, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="no nbformat to read notebooks with")
    client = pytest.importorskip("nbclient", reason="no nbclient to run notebooks with")
    shown = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(run, timeout=900, kernel_name="python3", resources=where).execute()
    for before, after in zip(shown.cells, run.cells, strict=True):
        if before.cell_type == "code":
            assert printed(after) == printed(before), before.source


def test_there_are_six_and_they_are_listed():
    page = (ROOT / "docs" / "notebooks.md").read_text()
    assert len(NOTEBOOKS) >= 6
    assert {path.name for path in NOTEBOOKS} == set(re.findall(r"notebooks/([\w-]+\.ipynb)", page))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_light_and_has_outputs(path):
    nbformat = pytest.importorskip("nbformat", reason="no nbformat to read notebooks with")
    assert path.stat().st_size < HEAVIEST
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert any(cell.outputs for cell in cells)
    assert not any(o.output_type == "error" for cell in cells for o in cell.outputs)
    assert "/tmp/" not in path.read_text()
