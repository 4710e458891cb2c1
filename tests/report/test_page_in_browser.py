"""The page in a real browser. Skipped, and said so, where there is none.

Loading a page costs seconds, so that each is opened once and looked at from many sides.
"""

import dataclasses
import math

import pytest

from bathyscope.core.records import Measurement
from bathyscope.report import Report, comparison_html, to_html
from tests.report.specimens import clean, exploding, treated
from tests.support.hostile_report import HOSTILE, hostile
from tests.unchecked import unchecked

BARE = dataclasses.replace(clean(3), measurements=(), curves={})
LARGE = exploding(333)


def assert_quiet(browser):
    assert browser.complaints() == []
    assert browser.requests() == []


@pytest.mark.parametrize(
    "page",
    [
        lambda: to_html(BARE),
        lambda: to_html(clean(1)),
        lambda: to_html(treated(110)),
        lambda: comparison_html([exploding(80), treated(81), hostile()]),
    ],
    ids=["nothing measured", "one block", "before and after", "comparison"],
)
def test_no_complaint_no_request_and_room_on_a_phone(browser, page):
    driver = browser.open(page())
    assert driver.title.endswith("bathyscope")
    lines = "[...document.querySelectorAll('.area .line')]"
    assert browser.run(f"return {lines}.every(l => document.getElementById(l.dataset.places))")
    browser.emulate(width=390)
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    assert_quiet(browser)


def test_a_request_would_be_seen_and_is_refused(browser):
    """The checks above can fail."""
    html = to_html(BARE).replace("</main>", '<img src="http://127.0.0.1:9/x.png"></main>')
    browser.open(html)
    assert any("Content Security Policy" in complaint for complaint in browser.complaints())
    browser.open(html.replace("Content-Security-Policy", "X-None"))
    assert "http://127.0.0.1:9/x.png" in browser.requests()


def test_names_from_the_model_are_text(browser):
    browser.open(to_html(hostile()))
    assert browser.run("return window.pwned") is None
    assert browser.run("return document.querySelector('tbody th').textContent") == HOSTILE
    assert browser.run("return document.querySelector('h1').textContent") == HOSTILE
    browser.run("document.querySelector('.strip').focus()")
    press(browser, "ArrowRight")
    assert HOSTILE in browser.run("return document.getElementById('tip').textContent")
    legend = "return [...document.querySelectorAll('.traces span')].map(t => t.textContent)"
    assert HOSTILE in browser.run(legend)
    assert browser.run("return document.querySelectorAll('main script:not([type])').length") == 0
    browser.emulate(width=390)
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    assert_quiet(browser)


@pytest.fixture(scope="class")
def large_page(chromium):
    chromium.emulate()
    chromium.open(to_html(LARGE))
    return chromium


class TestLargePage:
    """333 blocks with problems."""

    @pytest.fixture
    def browser(self, large_page):
        large_page.emulate()
        return large_page

    def test_loads_quietly(self, browser):
        assert_quiet(browser)

    def test_zoom_by_dragging_and_back(self, browser):
        from selenium.webdriver import ActionChains
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import WebDriverWait

        def shown() -> tuple[float, float]:
            views = browser.run(
                "return [...document.querySelectorAll('#plots svg')].map(s => s.getAttribute('viewBox'))"
            )
            assert len(views) == 9
            assert len(set(views)) == 1, "zooming into one zooms into all"
            start, _, width, _ = map(float, views[0].split())
            return start, start + width

        low, high = shown()
        assert low < 0
        assert high > 332
        area = browser.driver.find_element(By.CSS_SELECTOR, "#plots .area")
        browser.run("arguments[0].scrollIntoView({block: 'center'})", area)
        drag = ActionChains(browser.driver).move_to_element_with_offset(area, -100, 0)
        drag.click_and_hold().move_by_offset(75, 2).move_by_offset(75, 0).release().perform()
        wait = WebDriverWait(browser.driver, 900)
        wait.until(lambda _: shown() != (low, high))
        first, last = shown()
        assert 50 < first < last < 300
        assert 80 < last - first < 180
        names = (
            "return [...document.querySelectorAll('#plots .x')[0].children].map(t => t.textContent)"
        )
        ticks = browser.run(names)
        labels = [block.label for block in LARGE.blocks if first <= block.index <= last]
        assert 3 <= len(ticks) <= 7
        assert set(ticks) <= set(labels)
        # however busy the machine is, this is a double click
        browser.run("arguments[0].dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))", area)
        wait.until(lambda _: shown()[0] < 0 and shown()[1] > 332)
        assert_quiet(browser)

    def test_a_strip_tells_block_and_value(self, browser):
        from selenium.webdriver import ActionChains
        from selenium.webdriver.common.by import By

        driver = browser.driver
        strip = driver.find_element(
            By.CSS_SELECTOR, '.strip[data-name="condition number (samples)"]'
        )
        browser.run("arguments[0].scrollIntoView({block: 'center'})", strip)
        edge = strip.size["width"] // 2 - 3
        ActionChains(driver).move_to_element_with_offset(strip, edge, 0).perform()
        tip = driver.find_element(By.ID, "tip")
        assert tip.is_displayed()
        assert "∞" in tip.text
        assert "stage3" in tip.text
        browser.run("arguments[0].focus()", strip)
        press(browser, "Home")
        assert "block 0  stage1.0" in browser.run("return arguments[0].textContent", tip)
        press(browser, "Escape")
        assert not tip.is_displayed()

    def test_worst_first_and_back_to_depth(self, browser):
        from selenium.webdriver.common.by import By

        def press_button(name: str) -> None:
            browser.driver.find_element(By.CSS_SELECTOR, f'[data-sort="{name}"]').click()

        press_button("findings")
        labels = column(browser, "name")
        transition = next(block.label for block in LARGE.blocks if block.changes_dimension)
        assert labels[0] == transition  # two findings name it, one of them a problem
        named = {label for finding in LARGE.findings for label in finding.blocks}
        assert set(labels[: len(named)]) == named
        press_button("index")
        assert column(browser, "name") == [block.label for block in LARGE.blocks]

    def test_all_columns_on_request(self, browser):
        from selenium.webdriver.common.by import By

        tolerance = head(browser, "representations.tolerance_samples")
        assert not tolerance.is_displayed()
        browser.driver.find_element(By.ID, "all-columns").click()
        assert tolerance.is_displayed()

    def test_phone(self, browser):
        browser.emulate(width=390)
        assert browser.run("return document.documentElement.scrollWidth") <= 390

    def test_dark_light_and_paper(self, browser):
        color = "return getComputedStyle(document.body).backgroundColor"
        controls = "return getComputedStyle(document.querySelector('.controls')).display"
        light = browser.run(color)
        browser.emulate(dark=True)
        assert browser.run(color) != light
        browser.emulate(dark=True, media="print")
        assert browser.run(color) == light
        assert browser.run(controls) == "none"

    def test_a_sheet_of_paper_holds_the_plots_and_cuts_no_range(self, browser):
        tallest = (
            "return Math.max(...[...document.querySelectorAll('.panel')].map(p => p.offsetHeight))"
        )
        browser.emulate(width=700, media="print")
        assert 0 < browser.run(tallest) <= 900
        ranges = "[...document.querySelectorAll('.row .range')]"
        assert browser.run(f"return {ranges}.every(r => r.scrollWidth <= r.clientWidth)")


def awkward() -> Report:
    """Twelve blocks with one value of each awkward kind."""
    report = clean(12)
    high = (1.0, 5.0, None, math.inf, 3.0, 2.0, 900.0, 80.0, math.nan, 7.0, 6.0, 4.0)
    away = (1.0, 2.0, 0.25, 1.1, 8.0, 0.01, 0.9, 3.0, None, 1.2, 0.0, 1.3)
    body = report.blocks
    measured = (
        Measurement(name="representations", blocks=body, columns={"condition_samples": high}),
        Measurement(name="gradients", blocks=body, columns={"ratio": away}),
    )
    return dataclasses.replace(report, measurements=measured)


@pytest.fixture(scope="class")
def page(chromium):
    chromium.emulate()
    chromium.open(to_html(awkward()))
    return chromium


class TestSorting:
    CONDITION = "representations.condition_samples"

    def test_a_click_sorts_worst_first_and_another_turns_round(self, page):
        assert order(page, "index") == "ascending"
        head(page, self.CONDITION).click()
        worst = ["∞", "NaN", "900", "80", "7", "6", "5", "4", "3", "2", "1", "–"]
        assert column(page, self.CONDITION) == worst
        assert order(page, self.CONDITION) == "descending"
        assert order(page, "index") is None
        head(page, self.CONDITION).click()
        best = ["1", "2", "3", "4", "5", "6", "7", "80", "900", "∞", "NaN", "–"]
        assert column(page, self.CONDITION) == best
        assert order(page, self.CONDITION) == "ascending"
        assert_quiet(page)

    def test_a_target_sorts_by_distance_and_keys_work(self, page):
        from selenium.webdriver.common.keys import Keys

        head(page, "gradients.ratio").send_keys(Keys.ENTER)
        assert column(page, "gradients.ratio")[:4] == ["0", "0.01", "8", "0.25"]
        assert column(page, "gradients.ratio")[-2:] == ["1", "–"]
        assert order(page, "gradients.ratio") == "other"

    def test_names_sort_as_people_count(self, page):
        head(page, "name").click()
        names = [block.label for block in awkward().blocks]
        assert column(page, "name") == sorted(names)
        head(page, "name").click()
        assert column(page, "name") == sorted(names, reverse=True)


def column(browser, key: str) -> list[str]:
    """The texts of a column from the first row to the last."""
    return browser.run(
        "const heads = [...document.querySelectorAll('thead th')];"
        "const at = heads.findIndex(h => h.dataset.column === arguments[0]);"
        "return [...document.querySelector('tbody').rows].map(r => r.cells[at].textContent)",
        key,
    )


def head(browser, key: str):
    from selenium.webdriver.common.by import By

    return browser.driver.find_element(By.CSS_SELECTOR, f'thead th[data-column="{key}"] button')


def order(browser, key: str) -> str | None:
    result = f"document.querySelector('th[data-column=\"{key}\"]')"
    return browser.run(f"return {result}.getAttribute('aria-sort')")


def press(browser, key: str) -> None:
    browser.run(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))",
        key,
    )


def forged() -> Report:
    """A report whose fields that should be numbers and words of ours are markup instead."""
    bad = "\"><script>window.pwned=1</script><img src=x onerror='window.pwned=1'>"
    report = hostile()
    block = dataclasses.replace(report.blocks[0], index=bad, out_shape=(1, bad), num_parameters=0)
    finding = dataclasses.replace(report.findings[0], code=bad, title=bad)
    inner = dataclasses.replace(
        report,
        verdict=dataclasses.replace(report.verdict, level=bad),
        blocks=(block,),
        measurements=(),
        findings=(finding,),
        before=None,
        stages=(),
    )
    return dataclasses.replace(inner, before=inner)


@unchecked()
def test_fields_that_are_markup_do_not_run(browser):
    for page in (to_html(forged()), comparison_html([forged(), forged()])):
        browser.open(page)
        assert browser.run("return window.pwned") is None
        assert browser.run("return document.querySelectorAll('main img').length") == 0
        assert_quiet(browser)


def test_what_is_smuggled_into_a_page_is_refused_by_the_browser(browser):
    html = to_html(BARE).replace(
        "</main>",
        "<script>window.pwned=1</script><button id=b onclick='window.pwned=1'>x</button>"
        "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>"
        "<a id=a href='javascript:window.pwned=1'>x</a></main>",
    )
    browser.open(html)
    browser.run("document.getElementById('b').click(); document.getElementById('a').click()")
    assert browser.run("return window.pwned") is None
    assert len(browser.complaints()) >= 3, "each attempt is refused and said"
    browser.open(html.replace("Content-Security-Policy", "X-None"))
    browser.run("document.getElementById('b').click()")
    assert browser.run("return window.pwned") == 1, "the attempt is a real one"
