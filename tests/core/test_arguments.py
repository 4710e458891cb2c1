"""What a user hands in as a number, a name or a choice: the edges of what is taken."""

import math

import numpy as np
import pytest

from bathyscope.core.arguments import check_choice, check_count, check_names, check_number
from bathyscope.core.errors import UsageError


@pytest.mark.parametrize("value", [1, 7, np.int64(3)])
def test_whole_numbers_from_the_smallest_on_are_counts(value):
    result = check_count("k", value, minimum=1)
    assert result == value
    assert type(result) is int


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3", None])
def test_what_is_no_count_is_refused(value):
    with pytest.raises(UsageError, match="k is a whole number of at least 1, but"):
        check_count("k", value, minimum=1)


@pytest.mark.parametrize("value", [0.0, 0.5, 1, np.float32(0.25)])
def test_numbers_within_the_ends_are_taken(value):
    assert check_number("x", value, low=0.0, high=1.0) == value


@pytest.mark.parametrize("value", [-1e-9, 1 + 1e-9, math.nan, math.inf, True, "0.5", None])
def test_what_is_no_such_number_is_refused(value):
    with pytest.raises(UsageError, match="x is a number of at least 0 and at most 1, but"):
        check_number("x", value, low=0.0, high=1.0)


def test_an_open_end_is_left_out():
    assert check_number("x", 1e-300, low=0.0, open_low=True) == 1e-300
    with pytest.raises(UsageError, match="x is a number above 0, but 0"):
        check_number("x", 0, low=0.0, open_low=True)
    with pytest.raises(UsageError, match="inf"):
        check_number("x", math.inf, low=0.0, open_low=True)


def test_one_name_is_a_tuple_of_one():
    assert check_names("silence", "a") == ("a",)
    assert check_names("silence", ["a", "b"], minimum=2) == ("a", "b")
    assert check_names("silence", ()) == ()


@pytest.mark.parametrize(
    ("value", "said"), [(3, "a int was given"), (["a", 1], "a int"), ([], "give at least 1 name")]
)
def test_what_are_no_names_is_refused(value, said):
    with pytest.raises(UsageError, match=said):
        check_names("silence", value, minimum=1)


def test_a_choice_names_the_choices():
    check_choice("kind", "a", ["a", "b"])
    with pytest.raises(UsageError, match="kind is one of a, b, but 'c' was given"):
        check_choice("kind", "c", ["a", "b"])
