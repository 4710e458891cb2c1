import pytest

from bathyscope.core.errors import UnknownName
from bathyscope.data import load, names


def test_the_default_is_digits_and_needs_no_download():
    assert load().name == names()[0] == "digits"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownName, match="digits"):
        load("digit")


def test_normalising_and_drawing_are_options_of_load():
    part = load("digits", normalise=True, num_train=64, num_test=32)
    assert part.is_normalised
    assert (len(part.train_labels), len(part.test_labels)) == (64, 32)
