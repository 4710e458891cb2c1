"""Papers of other packages: one that is broken is named and left out, and the others continue."""

import sys

import pytest
from typer.testing import CliRunner

from bathyscope import claims, studies
from bathyscope.cli import app
from bathyscope.plugins import papers

CLAIM = """
from bathyscope.claims import Claim

CLAIMS = (Claim(name="{name}", statement="Nothing.", tested="Not at all."),)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that puts a distribution with a paper on the path."""

    def bring(theme, package, **modules):
        for name, text in modules.items():
            folder = tmp_path / package
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.py").write_text(text)
        metadata = tmp_path / f"{theme}_paper-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {theme}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{papers.GROUP}]\n{theme} = {package}\n")
        clear()

    def clear():
        papers.papers.cache_clear()
        papers.part.cache_clear()

    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield bring
    monkeypatch.undo()
    clear()
    for name in [name for name in sys.modules if name not in before and "_for_tests" in name]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("package", "modules", "why"),
    [
        ("nowhere_for_tests", {}, "ModuleNotFoundError: No module named 'nowhere_for_tests'"),
        ("nowhere_for_tests.inside", {}, "No module named 'nowhere_for_tests'"),
        (
            "lacking_for_tests",
            {"__init__": "", "claims": "import not_installed_for_tests", "studies": "STUDIES = ()"},
            "No module named 'not_installed_for_tests'",
        ),
        ("raising_for_tests", {"__init__": "1 / 0"}, "ZeroDivisionError: division by zero"),
        ("empty_for_tests", {"__init__": "", "claims": ""}, "has no attribute 'CLAIMS'"),
    ],
)
def test_a_paper_that_cannot_be_loaded_is_named_and_left_out(install, package, modules, why):
    ours = list(claims.all_claims())
    install("sixth", package, **modules)
    with pytest.warns(UserWarning, match=rf"The paper sixth \(package {package}\)") as result:
        assert list(claims.all_claims()) == ours
    assert len(result) == 1
    assert why in str(result[0].message)
    assert "sixth" not in claims.themes()


def test_the_commands_go_on_without_a_broken_paper(install):
    install("sixth", "nowhere_for_tests")
    with pytest.warns(UserWarning, match="The paper sixth"):
        listed = CliRunner().invoke(app, ["check", "list"], catch_exceptions=False)
    assert "nests.theorem_1" in listed.output
    with pytest.warns(UserWarning, match="The paper sixth"):
        known = CliRunner().invoke(app, ["reproduce", "list"], catch_exceptions=False)
    assert "shortcut_length.figure_4" in known.output
    assert claims.claim_of("nests.theorem_1").theme == "nests"


def test_a_claim_of_another_theme_than_its_entry_point_is_refused(install):
    install("sixth", "odd_for_tests", __init__="", claims=CLAIM.format(name="seventh.lemma_1"))
    with pytest.warns(
        UserWarning, match="does not begin with the name of its entry point"
    ) as result:
        assert "seventh.lemma_1" not in claims.all_claims()
    assert "seventh.lemma_1" in str(result[0].message)
    assert "The paper sixth (package odd_for_tests) is left out" in str(result[0].message)


def test_one_of_the_right_theme_is_taken(install):
    install("sixth", "good_for_tests", __init__="", claims=CLAIM.format(name="sixth.lemma_1"))
    assert claims.claim_of("sixth.lemma_1").theme == "sixth"
    assert list(claims.claims_of("sixth")) == ["sixth.lemma_1"]
    assert studies.studies_of("sixth") == {}
