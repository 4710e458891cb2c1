import io

import pytest
from PIL import Image
from rich.console import Console

from bathyscope.core.errors import UsageError
from bathyscope.report import comparison_picture, overview, show_overview
from tests.report.specimens import clean, exploding, staged
from tests.support.forecasts import FORECAST


def describe(reports, *, width: int, color: bool = False) -> str:
    written = io.StringIO()
    console = Console(
        file=written,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
    )
    show_overview(overview(reports), console)
    return written.getvalue()


def test_the_quantity_that_tells_networks_apart_is_the_worst_of_any():
    seen = overview([clean(20), exploding(20)])
    assert seen.label == "cumulative gradient ratio"
    assert seen.panel.key == "gradients.ratio_from_loss"
    assert min(seen.rows[1].trace.y) < 1e-11  # the ratio, as tables and JSON hold it
    assert overview([clean(20), clean(20)]).label != seen.label


def test_a_network_is_shown_at_its_start():
    report = staged(20)
    (row,) = overview([report]).rows
    assert row.when == report.stages[0][0]
    assert row.verdict == report.stages[0][1].verdict
    assert row.verdict != report.verdict


@pytest.mark.parametrize("width", [80, 200])
def test_every_line_fits_and_tells_severity_forecast_and_outcome(width):
    from dataclasses import replace

    report = replace(exploding(54), forecast=FORECAST, outcome="After 100 steps: accuracy 9 %.")
    lines = describe([report, clean(54)], width=width).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "✗ problem: " in text
    assert "✓ clean: " in text
    assert "fails (stuck): 3 % to train within 100 steps, after 8 steps on a copy" in " ".join(
        text.split()
    )
    assert "accuracy 9 %" in text
    assert "\x1b" not in text


def test_color_only_on_a_terminal():
    assert "\x1b" in describe([exploding(20)], width=80, color=True)


def test_the_picture_fits_a_screen(tmp_path):
    reports = [exploding(54), clean(54), clean(54, title="procresnet-58"), exploding(333)]
    comparison_picture(reports, tmp_path / "all.png")
    with Image.open(tmp_path / "all.png") as image:
        assert image.width == 1650
        assert image.height <= 1100


def test_nothing_to_show():
    with pytest.raises(UsageError, match="nothing to compare"):
        overview([])
