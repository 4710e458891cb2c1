import math

import pytest

from bathyscope.core.quantity import Quantity
from bathyscope.measure.quantities import QUANTITIES, quantity_of
from bathyscope.report.shading import shading


@pytest.mark.parametrize(("key", "known"), QUANTITIES.items())
def test_every_entry_says_what_it_is_and_can_be_shaded(key, known):
    assert known.label
    assert known.what.endswith(".")
    if known.direction in ("high", "low", "away"):
        assert known.anchors
        assert known.good
        assert known.why
    shades = shading(known, [1e-3, 1.0, 1e3])
    for value in (1e-30, 1e-3, 0.0, 1.0, 1e3, 1e30):
        shade = shades.shade(value)
        assert shade is not None
        assert -1 <= shade <= 1


def test_bad_is_dark_and_good_is_pale():
    condition = shading(quantity_of("representations.condition_samples"), [])
    assert condition.shade(10.0) == 0
    assert condition.shade(1e12) == 1
    assert condition.shade(math.inf) is None


def test_a_target_has_two_bad_sides():
    ratio = shading(quantity_of("gradients.ratio"), [])
    assert ratio.shade(1.0) == 0
    assert ratio.shade(100.0) == 1
    assert ratio.shade(0.01) == -1
    assert ratio.shade(0.0) == -1
    assert ratio.shade(4.0) == pytest.approx(-ratio.shade(0.25))


def test_low_is_bad_where_the_quantity_says_so():
    rank = shading(
        Quantity(key="m.r", label="r", scale="log", direction="low", anchors=(10.0, 1.0)), []
    )
    assert rank.shade(64.0) == 0
    assert rank.shade(1.0) == 1
    assert rank.shade(0.0) == 1


def test_unknown_columns_are_shaded_over_their_own_range():
    unknown = quantity_of("mine.special")
    assert unknown.direction == "none"
    wide, narrow = shading(unknown, [1e-4, 1.0, None, math.nan]), shading(unknown, [-1.0, 1.0])
    assert wide.log
    assert wide.shade(1e-2) == pytest.approx(0.5)
    assert not narrow.log
    assert narrow.shade(0.0) == pytest.approx(0.5)
    assert shading(unknown, [5.0, 5.0]).shade(5.0) == 0
    assert shading(unknown, []).shade(None) is None


def test_a_fraction_is_shaded_from_none_to_all_whatever_the_values():
    fraction = shading(Quantity(key="m.f", label="fraction", scale="fraction"), [0.2, 0.25])
    assert [fraction.shade(value) for value in (0.0, 0.25, 1.0)] == [0.0, 0.25, 1.0]
