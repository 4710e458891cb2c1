"""axe-core looks at the pages in a real browser. Skipped where there is no browser or no axe-core.

`npm install axe-core` in the working copy, or `AXE_CORE=/path/to/axe.min.js`, has it found.
"""

import dataclasses
import os
from pathlib import Path

import pytest

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, RootCause
from bathyscope.report import comparison_html, to_html
from bathyscope.report.loop_page import LoopReport
from tests.report.specimens import clean, exploding, staged, treated

ROOT = Path(__file__).resolve().parents[2]
AXE = Path(os.environ.get("AXE_CORE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
pytestmark = pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: npm install axe-core")
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then(
  (found) => done(found.violations.map((v) =>
    `${v.impact} ${v.id}: ${v.help} at ${v.nodes.slice(0, 3).map((n) => n.target.join(' ')).join(', ')}`)),
  (error) => done([String(error)]));
"""
PAGES = {
    "6 blocks": lambda: to_html(clean(6)),
    "333 blocks": lambda: to_html(exploding(333)),
    "stages": lambda: to_html(staged(20)),
    "treatment": lambda: to_html(treated(54)),
    "run": lambda: loop_page().to_html(),
    "comparison": lambda: comparison_html([exploding(20), clean(25)]),
}


def loop_page():
    """Of a loop with one fault."""
    finding = exploding(6).findings[0]
    root = RootCause(**{f.name: getattr(finding, f.name) for f in dataclasses.fields(Finding)})
    record = LoopRecord()
    return LoopReport("train.py", "watched 0 steps", record, (finding,), (root,), ("The data.",))


def violations(browser) -> list[str]:
    browser.driver.execute_script(AXE.read_text(encoding="utf-8"))
    browser.driver.set_script_timeout(280)
    return browser.driver.execute_async_script(RUN)


@pytest.mark.parametrize("page", PAGES)
def test_no_violation(browser, page):
    browser.open(PAGES[page]())
    for dark in (False, True):
        browser.emulate(dark=dark)
        assert violations(browser) == []


def test_a_violation_is_seen(browser):
    """The check above can fail."""
    html = to_html(clean(6)).replace(
        "</main>", '<img src="data:,"><p style="color:#eee">pale words</p></main>'
    )
    browser.open(html)
    result = " ".join(violations(browser))
    assert "image-alt" in result
    assert "color-contrast" in result
