"""Pages that follow from the code are current, and the documents speak of the project only."""

import functools
import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parent.parent


@functools.cache
def generator():
    return of_docs("generate")


def of_docs(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", generator().PAGES)
def test_generated_pages_are_current(name):
    assert (ROOT / "docs" / name).read_text() == generator().PAGES[name](), "run docs/generate.py"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("W_{L+1} v_iᵀ, c_ρ²", "W<sub>L+1</sub> v<sub>i</sub>ᵀ, c<sub>ρ</sub>²"),
        (
            "‖W‖_F, ∏_r S^r, W^{l−1}",
            "‖W‖<sub>F</sub>, ∏<sub>r</sub> S<sup>r</sup>, W<sup>l−1</sup>",
        ),
        ("ΣK_i over i<L", "ΣK<sub>i</sub> over i&lt;L"),
        ("num_train 5, x_test, [a*b]", "num\\_train 5, x<sub>test</sub>, \\[a\\*b\\]"),
        ("`num_train` of h_m", "`num_train` of h<sub>m</sub>"),
    ],
)
def test_signs_of_formulas_are_set_and_those_of_markdown_are_not(text, shown):
    assert generator()._plain(text) == shown


def test_no_path_outside_the_project_is_named():
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")]:
        assert not re.search(r"\.\./shared|/work/", path.read_text()), path


@pytest.mark.parametrize("name", generator().REFERENCE)
def test_the_reference_can_be_made(name):
    page = generator().REFERENCE[name]()
    assert page.startswith("# ")
    assert "|---|" in page or "\n::: bathyscope." in page


def test_the_reference_has_every_public_name():
    import bathyscope

    page = generator().REFERENCE["reference/names.md"]()
    for name in bathyscope.diagnosis.__all__ + bathyscope.core.__all__ + ["diagnose", "forecast"]:
        assert f"[`{name}`]" in page, name


def test_the_reference_has_every_verb_and_option():
    page = generator().REFERENCE["reference/command-line.md"]()
    for word in (
        "## diagnose",
        "## data fetch",
        "## the case",
        "`--fail-on`",
        "`--lr`",
        "`--treat`",
    ):
        assert word.lower() in page.lower(), word


DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/notebooks/*.ipynb"),
    *(p for p in ROOT.glob("docs/**/*.md") if p.parent.name != "reference"),
]
_LINK = re.compile(r"(?<!\\)\]\((?!https?://|#|mailto:)([^)#\s]+)(#[^)\s]+)?\)")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_is_linked_exists(path):
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", path.read_text())
    for target, _ in _LINK.findall(text):
        if "reference/" in target and path.is_relative_to(ROOT / "docs"):
            made = (path.parent / target).resolve().relative_to(ROOT / "docs")
            assert str(made) in generator().REFERENCE
            continue
        assert (path.parent / target).exists(), target


def test_links_of_notebooks_lead_to_pages_of_the_site():
    link = of_docs("notebook_links").on_page_content
    notebook = SimpleNamespace(file=SimpleNamespace(src_uri="notebooks/nests.ipynb"))
    pages = {"papers/nests.md": "it"}
    files = SimpleNamespace(get_file_from_path=pages.get)
    html = '<a href="../papers/nests.md#claims">'
    assert link(html, page=notebook, files=files) == '<a href="../../papers/nests/#claims">'
    with pytest.raises(ValueError, match=r"links to gone\.md"):
        link('<a href="../gone.md">', page=notebook, files=files)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="papers/nests.md"))
    assert link(html, page=page, files=files) == html


def test_every_page_has_a_way_to_it():
    site = (ROOT / "mkdocs.yml").read_text()
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/notebooks/*.ipynb")]
    missing = [str(p.relative_to(ROOT / "docs")) for p in pages] + list(generator().REFERENCE)
    assert [name for name in missing if f" {name}\n" not in site] == []


def test_the_picture_of_the_readme_fits_a_screen():
    from PIL import Image

    with Image.open(ROOT / "docs" / "comparison.png") as picture:
        assert picture.height <= 1100
        assert picture.width <= 1920
