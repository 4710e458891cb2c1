import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser

import pytest

from bathyscope.core.errors import UsageError
from bathyscope.core.records import Measurement, Severity
from bathyscope.report import comparison_html, notebook_html, to_html
from bathyscope.report.block_table import block_table
from bathyscope.report.page import notebook_strips
from tests.report.specimens import clean, exploding, staged, treated
from tests.support.hostile_report import hostile


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
    result = parsed(html)
    assert "img" not in result.tags
    assert not any(name.startswith("on") for name, _ in result.attributes)
    body = html.partition("<main>")[2].partition("</main>")[0]
    assert "<script>" not in body
    assert "<img" not in body


@pytest.mark.parametrize("report", [clean(20), exploding(54), staged(9), treated(9)])
def test_the_page_holds_all_it_needs(report):
    html = to_html(report)
    result = parsed(html)
    assert "iframe" not in result.tags
    links = [value for name, value in result.attributes if name in ("src", "href") and value]
    # the one thing outside is the page of a finding in the docs, where one clicks on its code
    assert all(link.startswith(("#", "data:")) or "/findings/#" in link for link in links)
    assert {link[1:] for link in links if link.startswith("#")} <= set(result.ids)
    assert len(result.ids) == len(set(result.ids))
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
    assert {
        "gradient norm ratio",
        "condition number (samples)",
        "activation mean",
        "rank (samples)",
    } <= names
    assert "tolerance (samples)" not in names  # a setting stands in the table alone
    described = html.count('<div class="strip"') + html.count('<div class="strip gaps"')
    assert described == len(names)
    assert "Near 1: the block preserves the norm." in html


def test_333_blocks_cost_few_elements():
    html = to_html(exploding(333))
    strips = html.partition('<section id="depth">')[2].partition("</section>")[0]
    assert strips.count("<path") < 20 * strips.count('class="strip')
    assert len(html) - html.index("<main>") < 8_000_000


def test_before_and_after_say_what_changed():
    html = to_html(treated(54))
    assert html.count('<span class="change">gone</span>') == 4
    assert re.findall(r'class="when">([^<]+)', html) == ["before"]


def test_a_change_of_severity_is_told():
    before = exploding(12)
    first, second, third, _ = before.findings
    mild = dataclasses.replace(first, severity=Severity.NOTE)
    grave = dataclasses.replace(third, severity=Severity.PROBLEM)
    fresh = dataclasses.replace(second, code="fresh")
    after = dataclasses.replace(before, findings=(grave, second, fresh, mild), before=before)
    result = re.findall(r'class="change">([^<]+)</span>.*?<code>([^<]+)', to_html(after))
    assert sorted(result) == [
        ("gone", "batchnorm-masks"),
        ("milder", "gradient-explodes"),
        ("more severe", "not-norm-preserving"),
        ("new", "fresh"),
        ("still there", "singular-representation"),
    ]


def test_stages_stand_in_the_order_of_time():
    report = staged(54)
    html = to_html(report)
    assert re.findall(r'class="level">([^<]+)', html) == ["problem"]
    assert re.findall(r'class="when">([^<]+)</span> <span class="severity (\w+)', html) == [
        ("at the start", "clean"),
        ("after 8 steps", "problem"),
    ]
    assert re.findall(r'data-name="gradient norm ratio" data-when="([^"]+)"', html) == [
        "at the start",
        "after 8 steps",
    ]


def test_the_card_of_a_comparison_is_about_one_state_the_untrained_one():
    report = staged(12)
    html = comparison_html([report, clean(12, title="other")])
    card = html.partition("<h2>preplain-164</h2>")[2].partition("</ul>")[0]
    start, later = (state.verdict.sentence for _, state in report.stages)
    assert start in card
    assert later not in card
    assert "Training, and depth at the start" in html


def test_beside_a_loss_only_a_curve_that_shows_a_finding_stands_first():
    report = dataclasses.replace(exploding(12), curves={"loss": [(0, 2.3), (1, 2.2)]})
    firsts = {
        key: to_html(dataclasses.replace(report, decisive=key)).partition('id="findings"')[0]
        for key in ("", "gradient_ratio.cumulative")
    }
    assert [html.count("<figure") for html in firsts.values()] == [1, 2]


def test_a_comparison_shares_one_scale():
    html = comparison_html([exploding(80, title="plain"), clean(85, title="residual")])
    for title in ("plain", "residual"):
        assert f"<h2>{title}</h2>" in html
    pair = re.findall(r'data-name="gradient norm at the input".*?</svg>', html, flags=re.S)
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
