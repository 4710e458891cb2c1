"""A paper in another package: one folder and an entry point, and it is everywhere."""

import sys

import pytest
from typer.testing import CliRunner

from bathyscope import claims, studies
from bathyscope.cli import app
from bathyscope.plugins import papers

CLAIMS = """
from bathyscope.claims import Claim, Measured, at_most

CLAIMS = (
    Claim(
        name="fifth.lemma_1",
        statement="The square of the seed is no less than the seed.",
        tested="By squaring.",
        measure=lambda seed: Measured(numbers={"square": seed * seed, "seed": seed}),
        law=lambda n: [at_most("seed", n["seed"], n["square"])],
    ),
)
"""
STUDIES = """
import pandas as pd

from bathyscope.studies import Check, Preset, Study
from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import panels


class Squares(Computation):
    upto: int = 3

    def rows(self):
        yield from ({"x": x, "y": x * x} for x in range(self.upto))


def draw(table, preset):
    figure, (ax,) = panels()
    ax.plot(table["x"], table["y"])
    return figure


STUDIES = (
    Study(
        name="fifth.figure_1",
        title="Squares",
        shows="That squares grow.",
        presets={"quick": Preset(), "full": Preset()},
        tasks=lambda preset: [Squares()],
        table=lambda store, preset: store.frame([Squares()]),
        checks=lambda table, preset: (
            Check("the last is the largest", bool(table["y"].is_monotonic_increasing), "3 of 3"),
        ),
        draw=draw,
    ),
)
"""


@pytest.fixture
def fifth(tmp_path, monkeypatch):
    """A distribution on the path that brings a paper of its own."""
    folder = tmp_path / "fifth_paper"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "claims.py").write_text(CLAIMS)
    (folder / "studies.py").write_text(STUDIES)
    metadata = tmp_path / "fifth_paper-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fifth-paper\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[bathyscope.papers]\nfifth = fifth_paper\n")
    caches = [papers.papers, papers.part]
    kept = [list(known()) for known in (papers.papers, claims.all_claims, studies.all_studies)]
    monkeypatch.syspath_prepend(tmp_path)
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()
    for name in [name for name in sys.modules if name.startswith("fifth_paper")]:
        del sys.modules[name]
    for known, names in zip(
        (papers.papers, claims.all_claims, studies.all_studies), kept, strict=True
    ):
        assert list(known()) == names


def shown(*text):
    return CliRunner().invoke(app, [*text], catch_exceptions=False, env={"COLUMNS": "250"}).output


def test_a_new_paper_is_found_everywhere(fifth, tmp_path):
    assert "fifth.lemma_1" in shown("check", "list")
    assert "fifth.lemma_1: holds" in shown("check", "fifth.lemma_1")
    assert "fifth.figure_1" in shown("reproduce", "list")
    assert claims.ledger().loc["fifth.lemma_1", "theme"] == "fifth"
    assert "fifth" in claims.themes()
    out = tmp_path / "out"
    assert "1 of 1 met" in shown("reproduce", "fifth", "--out", str(out), "--workers", "1")
    page = (out / "index.html").read_text()
    assert 'id="fifth.figure_1-quick"' in page
    assert len(claims.all_claims()) > 80, "ours are still there"


def test_without_it_nothing_of_it_is_there():
    assert "fifth" not in papers.papers()
    assert list(papers.papers())[:4] == [
        "singularity",
        "shortcut_length",
        "nests",
        "norm_preservation",
    ]
