import dataclasses

import pytest
from PIL import Image

from bathyscope.core.errors import UsageError
from bathyscope.report import comparison_picture, to_picture
from bathyscope.report.palette import LIGHT
from tests.report.specimens import clean, exploding, staged
from tests.support.hostile_report import hostile

NOT_FINITE = tuple(int(LIGHT["nf"][i : i + 2], 16) for i in (1, 3, 5))


def colors(path) -> set:
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.width == 1650
        return {color for _, color in image.convert("RGB").getcolors(1 << 24)}


@pytest.mark.parametrize("report", [staged(20), hostile()])
def test_a_picture_is_written(report, tmp_path):
    to_picture(report, tmp_path / "report.png")
    assert len(colors(tmp_path / "report.png")) > 50


def test_what_is_non_finite_is_seen(tmp_path):
    to_picture(exploding(333), tmp_path / "broken.png")
    to_picture(clean(30), tmp_path / "clean.png")

    def strip_pixels(path) -> int:
        with Image.open(path) as image:
            result = {c: n for n, c in image.convert("RGB").getcolors(1 << 24)}
        return result.get(NOT_FINITE, 0)

    assert strip_pixels(tmp_path / "broken.png") > 20 * strip_pixels(tmp_path / "clean.png") + 1000


def test_a_comparison_is_written(tmp_path):
    comparison_picture([exploding(20), clean(25)], tmp_path / "all.png")
    assert len(colors(tmp_path / "all.png")) > 50


def test_nothing_measured_is_still_a_picture(tmp_path):
    bare = dataclasses.replace(clean(3), measurements=(), curves={})
    to_picture(bare, tmp_path / "bare.png")
    assert len(colors(tmp_path / "bare.png")) > 5


def test_bad_places_and_empty_comparisons_are_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        to_picture(clean(3), tmp_path / "missing" / "report.png")
    with pytest.raises(UsageError, match="nothing to compare"):
        comparison_picture([], tmp_path / "none.png")
