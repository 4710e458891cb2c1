import math

import pytest

from bathyscope.report.numbers import amount, block_extent, name_list, number, range_of


@pytest.mark.parametrize(
    ("value", "result"),
    [
        # 0.001 and 9,999 are the ends of what is reported without an exponent
        (0.001, "0.001"),
        (0.000999, "9.99e-4"),
        (-0.0015, "-0.0015"),
        (9999.0, "9999"),
        (10_000.0, "1e4"),
        (-25_000.0, "-2.5e4"),
        (1234.0, "1234"),
        (12.349, "12.3"),
        # whole numbers keep their digits below a milliard
        (999_999_999, "999,999,999"),
        (-999_999_999, "-999,999,999"),
        (1_000_000_000, "1e9"),
        (-1_000_000_000, "-1e9"),
        (100, "100"),
        (300_000.0, "3e5"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (-0.0, "0"),
        (False, "no"),
        (0, "0"),
    ],
)
def test_a_number_in_a_few_characters(value, result):
    assert number(value) == result


def test_the_digits_are_those_asked_for():
    assert [number(12345.6, digits=d) for d in (1, 2, 4)] == ["1e4", "1.2e4", "1.235e4"]
    assert [number(0.123456, digits=d) for d in (1, 2, 4)] == ["0.1", "0.12", "0.1235"]
    assert number(123_456_789_012, digits=2) == "1.2e11"


def test_one_is_no_plural():
    assert [amount(n, "step") for n in (0, 1, 2, 1000)] == [
        "0 steps",
        "1 step",
        "2 steps",
        "1,000 steps",
    ]


def test_a_list_is_cut_in_the_middle_and_only_where_it_is_too_long():
    assert name_list(tuple("abcd")) == "a, b, c, d"
    assert name_list(tuple("abcde")) == "a, b … d, e (5 blocks)"
    assert name_list(tuple("abcdefg"), most=2) == "a … g (7 blocks)"
    assert name_list(()) == ""


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ([3.0, 1.0, 2.0], "1 – 3"),
        ([2.0, None, 2.0], "2"),
        ([1.0, math.nan, math.inf], "1, 2 non-finite"),
        ([math.nan, None], "1 non-finite"),
        ([None], ""),
        ([], ""),
    ],
)
def test_the_range_tells_what_is_non_finite(values, result):
    assert range_of(values) == result


def test_blocks_of_which_the_order_is_not_known_are_no_row():
    assert block_extent(("u", "v", "w"), "abc") == "u, v, w"
    assert block_extent(("b", "u", "a", "c"), "abc") == "a to c, u"
