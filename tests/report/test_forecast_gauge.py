from dataclasses import replace

import pytest

from bathyscope.foresight.record import Forecast
from bathyscope.report import Judgment, Report, to_html
from bathyscope.report.comparison import comparison_html

SEEN = Forecast(
    verdict="fails",
    probability=0.04,
    kind="stuck",
    because=("the <loss> stays",),
    spent=8,
    budget=300,
    inside=False,
    outside=("it has 900 weighted layers",),
    notes=(),
    calibrated_on={"networks": 47},
)


def page(forecast, *, compared=False):
    clean = Judgment(level="clean", sentence="Nothing found.")
    report = Report(title="mlp", verdict=clean, blocks=(), forecast=forecast)
    return comparison_html([report]) if compared else to_html(report)


@pytest.mark.parametrize("compared", [False, True])
def test_a_page_tells_the_forecast_and_escapes_its_reasons(compared):
    html = page(SEEN, compared=compared)
    assert "Within 300 steps: fails (stuck), probability of training 4 %" in html
    assert "left:4.0%" in html
    assert "the &lt;loss&gt; stays" in html
    assert "Not seen in calibration: it has 900 weighted layers." in html


def test_what_is_undecided_stands_in_the_middle_field():
    html = page(replace(SEEN, verdict="undecided", kind=None, probability=0.95))
    assert "left:88.0%" in html
    assert "undecided, probability of training 95 %" in html


def test_a_page_without_a_forecast_has_no_gauge():
    assert 'class="gauge"' not in page(None)
