import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser

import pytest

from bathyscope.core.errors import UsageError
from bathyscope.core.records import Block, Finding, Measurement, Severity
from bathyscope.report import Judgement, Report, comparison_html, notebook_html, to_html
from bathyscope.report.block_table import block_table
from bathyscope.report.page import notebook_strips
from tests.report.specimens import clean, exploding, staged, treated

HOSTILE = """<script>window.pwned=1</script>"'&amp;<img src=x onerror=window.pwned=1>${1}|%{x}"""


def hostile() -> Report:
    """A report whose every string wants to be markup."""
    bad = HOSTILE
    block = Block(index=0, name=bad, end=bad, kind=bad, num_parameters=3)
    other = Block(index=1, name="b", end="b", kind="k", call=1)
    measured = (
        Measurement(
            name="gradients",
            blocks=(block, other),
            columns={"ratio": (1.0, 2.0), bad: (1.0, 3.0), "text": (bad, None)},
            settings={bad: bad, "list": [1, bad]},
            notes=(bad,),
        ),
        Measurement(name=bad, blocks=(block,), columns={bad: (2.0,), "norm": (1.0,)}),
    )
    finding = Finding(
        code=bad,
        severity=Severity.WARNING,
        title=bad,
        blocks=(bad, "b[1]", bad, bad, bad, bad),
        evidence={bad: bad},
        why=bad,
        source=bad,
        remedy=bad,
    )
    inner = Report(
        title=bad,
        verdict=Judgement(level="warning", sentence=bad),
        blocks=(block, other),
        measurements=measured,
        findings=(finding,),
        provenance={bad: bad},
        curves={bad: ((0, 1.0), (1, 2.0))},
        notes=(bad,),
    )
    return dataclasses.replace(inner, before=inner, stages=((bad, inner), ("later", inner)))


class Tags(HTMLParser):
    """Collects the tags outside scripts, and every attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id" and value]


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


@pytest.mark.parametrize("page", [to_html, lambda report: comparison_html([report, report])])
def test_everything_from_the_model_is_escaped(page):
    html = page(hostile())
    found = parsed(html)
    assert "img" not in found.tags
    assert not any(name.startswith("on") for name, _ in found.attributes)
    body = html.partition("<main>")[2].partition("</main>")[0]
    assert "<script>" not in body
    assert "<img" not in body


@pytest.mark.parametrize("report", [clean(20), exploding(54), staged(9), treated(9)])
def test_the_page_holds_all_it_needs(report):
    html = to_html(report)
    found = parsed(html)
    assert "iframe" not in found.tags
    links = [value for name, value in found.attributes if name in ("src", "href") and value]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert {link[1:] for link in links if link.startswith("#")} <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))
    assert html.count("plotly.js (lines only - minified) v") == 1
    assert "default-src 'none'" in html


def test_verdict_first_then_findings_in_order():
    report = exploding(54)
    html = to_html(report)
    at = [html.index(report.verdict.sentence), *(html.index(f.title) for f in report.findings)]
    assert at == sorted(at)
    for finding in report.findings:
        assert f"<code>{finding.code}</code>" in html
        assert finding.source in html
        assert (finding.remedy or "No remedy is known.") in html.replace("&#39;", "'")
    assert "all 27 blocks" in html


def test_every_quantity_has_a_strip_and_words():
    report = exploding(54)
    html = to_html(report)
    names = set(re.findall(r'class="strip[^>]*data-name="([^"]+)"', html))
    assert {"gradient growth", "condition (samples)", "activation mean", "rank (samples)"} <= names
    assert "cut-off (samples)" not in names  # a setting stands in the table alone
    described = html.count('<div class="strip"') + html.count('<div class="strip gaps"')
    assert described == html.count('data-blocks="blocks-0"') == len(names)
    assert "Near 1: the block preserves the norm." in html


def test_333_blocks_cost_few_elements():
    html = to_html(exploding(333))
    strips = html.partition('<section id="depth">')[2].partition("</section>")[0]
    assert strips.count("<path") < 20 * strips.count('class="strip')
    assert len(html) - html.index("<main>") < 8_000_000


def test_before_and_after_say_what_changed():
    html = to_html(treated(54))
    assert html.count('<span class="change">gone</span>') == 4
    assert re.findall(r'class="when">([^<]+)', html) == ["before", "after"]


def test_a_change_of_severity_is_told():
    before = exploding(12)
    first, second, third, _ = before.findings
    mild = dataclasses.replace(first, severity=Severity.NOTE)
    grave = dataclasses.replace(third, severity=Severity.PROBLEM)
    fresh = dataclasses.replace(second, code="fresh")
    after = dataclasses.replace(before, findings=(grave, second, fresh, mild), before=before)
    told = re.findall(r'class="change">([^<]+)</span>.*?<code>([^<]+)', to_html(after))
    assert sorted(told) == [
        ("gone", "batchnorm-masks"),
        ("graver", "not-norm-preserving"),
        ("milder", "gradient-explodes"),
        ("new", "fresh"),
        ("still there", "singular-representation"),
    ]


def test_stages_stand_in_the_order_of_time():
    report = staged(54)
    html = to_html(report)
    assert re.findall(r'class="level">([^<]+)', html) == ["problem", "clean", "problem"]
    assert re.findall(r'data-name="gradient growth" data-when="([^"]+)"', html) == [
        "at the start",
        "after 8 steps",
    ]


def test_a_comparison_shares_one_scale():
    html = comparison_html([exploding(80, title="plain"), clean(85, title="residual")])
    for title in ("plain", "residual"):
        assert f"<h2>{title}</h2>" in html
    pair = re.findall(r'data-name="gradient at the input".*?</svg>', html, flags=re.S)
    assert len(pair) == 2
    # on the scale of the exploding one, the healthy one is uniformly small
    assert set(re.findall(r'class="(c\d)"', pair[1])) == {"c0"}
    assert "c8" in pair[0]
    assert "training loss" in html


def test_nothing_to_compare():
    with pytest.raises(UsageError, match="nothing to compare"):
        comparison_html([])


def test_a_page_of_27_blocks_and_6_states_is_small():
    states = tuple((f"after {step} steps", exploding(27)) for step in range(6))
    html = to_html(dataclasses.replace(exploding(27), stages=states))
    assert len(html.encode()) <= 1_400_000


def test_scripts_are_allowed_by_their_hash_and_no_handler_stands_inline():
    html = to_html(exploding(9))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html).group(1)
    scripts = policy.partition("script-src")[2].partition(";")[0]
    assert "unsafe" not in scripts
    for script in re.findall(r"<script>(.*?)</script>", html, flags=re.S):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in scripts
    assert not any(name.startswith("on") for name, _ in parsed(html).attributes)


@pytest.mark.parametrize(
    ("value", "sorts_as"),
    [
        (None, ""),
        (2.5, "2.5"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_a_cell_sorts_by_its_value_and_infinities_as_such(value, sorts_as):
    report = clean(2)
    columns = {"own": (1.0, value)}
    measured = Measurement(name="mine", blocks=report.blocks, columns=columns)
    table = block_table(dataclasses.replace(report, measurements=(measured,), curves={}))
    assert [cell.sort for row in table.rows for cell in row.cells] == ["1", sorts_as]


def test_a_notebook_shows_the_worst_quantity_before_and_after():
    strips = notebook_strips(treated(6))
    assert [name.rpartition(" ")[2] for name, _, _ in strips] == ["before", "after"]
    (first, _, bad), (second, _, good) = strips
    assert first.removesuffix("before") == second.removesuffix("after")
    assert bad != good
    html = notebook_html(treated(6))
    assert html.count("<svg") == 2
    assert f"{second} over depth" in html
