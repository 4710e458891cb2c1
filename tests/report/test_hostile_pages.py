"""Every kind of page, made from JSON and names that want to be markup, in a real browser."""

import base64
import dataclasses
import json

import pytest

from bathyscope import studies
from bathyscope.core.errors import UsageError
from bathyscope.foresight.record import Forecast
from bathyscope.report import comparison_html, from_json, to_html, to_json
from bathyscope.report.training_page import EventView, TrainingPage, training_html
from tests.support.hostile_report import HOSTILE, hostile

STUDY = "shortcut_length.figure_4"
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def report():
    """With a forecast and a recipe's code, read from the JSON that someone sent."""
    result = (HOSTILE,)
    seen = Forecast(
        verdict="fails",
        probability=0.02,
        kind="stuck",
        because=result,
        spent=8,
        budget=300,
        inside=False,
        outside=result,
        notes=result,
        calibrated_on={HOSTILE: HOSTILE},
    )
    whole = dataclasses.replace(hostile(), forecast=seen, code=HOSTILE)
    return from_json(json.loads(json.dumps(to_json(whole))))


def training_page():
    event = EventView(
        step=3, sentence=HOSTILE, before=(HOSTILE,), numbers=((HOSTILE, HOSTILE),), advice=HOSTILE
    )
    curve = ((1.0, 2.0, 3.0), (1.0, None, 2.0))
    page = TrainingPage(
        title=HOSTILE,
        num_steps=3,
        events=(event,),
        curves={"loss": curve, HOSTILE: curve},
        block_curves={"std": {HOSTILE: curve}, HOSTILE: {HOSTILE: curve}},
    )
    return training_html(page)


def gallery(folder):
    location = folder / STUDY / "quick"
    location.mkdir(parents=True)
    result = {
        "study": HOSTILE,
        "title": HOSTILE,
        "preset": "quick",
        "checks": [{"statement": HOSTILE, "passed": True, "value": HOSTILE}],
        "notes": [HOSTILE],
        "provenance": {
            "settings": {HOSTILE: HOSTILE},
            "seeds": [0],
            "num_runs": 1,
            "seconds": 1.0,
            "versions": {"torch": HOSTILE},
        },
    }
    (location / "result.json").write_text(json.dumps(result))
    (location / "figure.png").write_bytes(DOT)
    return studies.write_gallery(folder).read_text()


PAGES = {
    "report": lambda folder: to_html(report()),
    "comparison": lambda folder: comparison_html([report(), report()]),
    "training": lambda folder: training_page(),
    "gallery": gallery,
}


@pytest.mark.parametrize("kind", PAGES)
def test_nothing_of_a_hostile_page_runs(browser, tmp_path, kind):
    page = PAGES[kind](tmp_path)
    browser.open(page)
    browser.run(
        "document.querySelectorAll('button, summary, a[href^=\\'#\\']').forEach(e => e.click());"
        "document.querySelectorAll('main *').forEach("
        "  e => e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})))"
    )
    assert browser.run("return window.pwned") is None
    handlers = browser.run(
        "return [...document.querySelectorAll('*')].flatMap("
        "  e => [...e.attributes].map(a => a.name).filter(n => n.startsWith('on')))"
    )
    assert handlers == [], "our own pages need no inline handler"
    assert browser.run("return document.querySelectorAll('img[src=x]').length") == 0
    assert browser.complaints() == []
    assert "window.pwned=1" in page, "the attempt is in the page, as text"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("preset", HOSTILE),
        ("checks", [{"statement": "s", "passed": HOSTILE, "value": "v"}]),
        ("provenance", {"settings": {}, "seeds": [HOSTILE], "num_runs": HOSTILE}),
        ("notes", HOSTILE),
        (None, [1, 2]),
        (None, HOSTILE),
    ],
)
def test_a_damaged_result_is_one_sentence(tmp_path, field, value):
    gallery(tmp_path)
    path = tmp_path / STUDY / "quick" / "result.json"
    result = json.loads(path.read_text())
    path.write_text(json.dumps(value if field is None else result | {field: value}))
    with pytest.raises(UsageError, match=r"is not a study's result") as refusal:
        studies.write_gallery(tmp_path)
    assert "\n" not in str(refusal.value)
